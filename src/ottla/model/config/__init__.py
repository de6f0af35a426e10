"""Kafka's configs: what each one is (tables), what a node and a topic make of them, and what DescribeConfigs tells."""

from ottla.model.config.broker import BrokerConfig, Layers, broker_config, standalone
from ottla.model.config.definition import ConfigDef, ConfigSource, ConfigType
from ottla.model.config.describe import (
    DescribedConfig,
    DescribedSynonym,
    describe_broker,
    describe_client_metrics,
    describe_cluster_defaults,
    describe_group,
    describe_topic,
)
from ottla.model.config.properties import load_properties, parse_properties
from ottla.model.config.tables.broker import BROKER_CONFIGS
from ottla.model.config.tables.topic import TOPIC_CONFIGS
from ottla.model.config.topic import LogConfig, log_config, validate_topic_configs
from ottla.model.config_error import ConfigError

__all__ = [
    "BROKER_CONFIGS",
    "TOPIC_CONFIGS",
    "BrokerConfig",
    "ConfigDef",
    "ConfigError",
    "ConfigSource",
    "ConfigType",
    "DescribedConfig",
    "DescribedSynonym",
    "Layers",
    "LogConfig",
    "broker_config",
    "describe_broker",
    "describe_client_metrics",
    "describe_cluster_defaults",
    "describe_group",
    "describe_topic",
    "load_properties",
    "log_config",
    "parse_properties",
    "standalone",
    "validate_topic_configs",
]
