"""The rules of configs as the controller asks for them. A broker's own were checked by that broker before they come."""

from collections.abc import Callable, Mapping

from ottla.metadata.controller import topic_names
from ottla.metadata.controller.result import ApiError
from ottla.metadata.controller.settings import ConfigRules
from ottla.metadata.image import ConfigResource, ResourceType
from ottla.model.config.broker import BrokerConfig
from ottla.model.config.client_metrics import validate_client_metrics
from ottla.model.config.definition import ConfigDef, ConfigType, Value, format_value, whole_number
from ottla.model.config.group import validate_group_configs
from ottla.model.config.tables.broker import BROKER_CONFIGS
from ottla.model.config.tables.topic import TOPIC_CONFIGS
from ottla.model.config.topic import topic_values, validate_topic_configs
from ottla.model.config_error import ConfigError
from ottla.model.errors import ErrorCode, KafkaError


def config_rules(broker: Callable[[], BrokerConfig | None] = lambda: None) -> ConfigRules:
    """With the defaults and bounds that this broker's config has at the moment."""

    def check(resource: ConfigResource, values: Mapping[str, str]) -> ApiError | None:
        try:
            _check(resource, values, broker())
        except ConfigError as error:
            return ApiError(ErrorCode.invalid_config, str(error))
        except KafkaError as error:
            return ApiError(error.code, error.message)
        return None

    def is_list(resource: ConfigResource, name: str) -> bool:
        definition = _definition(resource, name)
        return definition is not None and definition.type is ConfigType.LIST

    def default(resource: ConfigResource, name: str) -> str | None:
        definition = _definition(resource, name)
        return None if definition is None else definition.default_text

    last: tuple[BrokerConfig | None, Mapping[str, Value]] = (None, topic_values(None, {}))

    def inherited(name: str) -> str | None:
        """One config holds for long, and decisions ask often."""
        nonlocal last
        current = broker()
        if current is not last[0]:
            last = current, topic_values(current, {})
        return format_value(last[1][name])

    return ConfigRules(check, is_list, default, inherited)


def _definition(resource: ConfigResource, name: str) -> ConfigDef | None:
    """Kafka lets only these two have lists that are edited, though a metrics subscription has lists too."""
    tables = {ResourceType.TOPIC: TOPIC_CONFIGS, ResourceType.BROKER: BROKER_CONFIGS}
    return tables.get(ResourceType(resource.type), {}).get(name)


def _check(resource: ConfigResource, values: Mapping[str, str], broker: BrokerConfig | None) -> None:
    match resource.type:
        case ResourceType.TOPIC:
            _demand_name(resource, "Default topic resources are not allowed.")
            if (wrong := topic_names.what_is_wrong(resource.name)) is not None:
                raise KafkaError(ErrorCode.invalid_topic_exception, wrong)
            validate_topic_configs(values, broker)
        case ResourceType.BROKER:
            _check_broker(resource.name)
        case ResourceType.GROUP:
            _demand_name(resource, "Default group resources are not allowed.")
            validate_group_configs(values, broker)
        case ResourceType.CLIENT_METRICS:
            _demand_name(resource, "Subscription name can't be empty")
            validate_client_metrics(values)


def _check_broker(name: str) -> None:
    """Without a name it is all brokers."""
    number = whole_number(name) if name else 0
    if number is None or not -(1 << 31) <= number < 1 << 31:
        raise KafkaError(ErrorCode.invalid_request, "Unable to parse broker name as a base 10 number.")
    if number < 0:
        raise KafkaError(ErrorCode.invalid_request, "Invalid negative broker ID.")


def _demand_name(resource: ConfigResource, otherwise: str) -> None:
    if not resource.name:
        raise KafkaError(ErrorCode.invalid_request, otherwise)
