"""Values that are kept elsewhere (KIP-297)."""

from pathlib import Path

import pytest

from ottla.model.config import ConfigError, broker_config, describe_broker, standalone

NODE = standalone("/data", 9092)
CLASSES = "org.apache.kafka.common.config.provider."


def provider(name: str, class_name: str, **params: str) -> dict[str, str]:
    settings = {f"config.providers.{name}.param.{key.replace('_', '.')}": value for key, value in params.items()}
    return {"config.providers": name, f"config.providers.{name}.class": CLASSES + class_name, **settings}


def partitions(given: dict[str, str]) -> int:
    return broker_config(NODE | given).num_partitions


def test_a_value_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_TEST_PARTITIONS", "7")
    env = provider("env", "EnvVarConfigProvider")

    assert partitions(env | {"num.partitions": "${env:OTTLA_TEST_PARTITIONS}"}) == 7
    assert partitions(env | {"num.partitions": "1${env:OTTLA_TEST_PARTITIONS}"}) == 17
    with pytest.raises(ConfigError, match=r"Invalid value \$\{env:NO_SUCH\} for configuration num.partitions"):
        partitions(env | {"num.partitions": "${env:NO_SUCH}"})


def test_only_some_of_the_environment_may_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_TEST_PARTITIONS", "7")
    value = {"num.partitions": "${env:OTTLA_TEST_PARTITIONS}"}

    assert partitions(provider("env", "EnvVarConfigProvider", allowlist_pattern="OTTLA_.*") | value) == 7
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        partitions(provider("env", "EnvVarConfigProvider", allowlist_pattern="OTHER_.*") | value)


def test_a_value_from_a_properties_file(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("partitions=5\n")
    file = provider("file", "FileConfigProvider")

    assert partitions(file | {"num.partitions": f"${{file:{tmp_path}/secrets.properties:partitions}}"}) == 5
    with pytest.raises(ConfigError, match="cannot read"):
        partitions(file | {"num.partitions": f"${{file:{tmp_path}/absent:partitions}}"})


def test_a_value_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "partitions").write_text("6")
    folder = {"num.partitions": f"${{dir:{tmp_path}:partitions}}"}

    assert partitions(provider("dir", "DirectoryConfigProvider") | folder) == 6
    assert partitions(provider("dir", "DirectoryConfigProvider", allowed_paths=f"/nowhere,{tmp_path}") | folder) == 6
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        partitions(provider("dir", "DirectoryConfigProvider", allowed_paths="/nowhere") | folder)


def test_without_a_provider_the_text_is_the_value() -> None:
    broker = broker_config(NODE | {"broker.rack": "${env:HOME}"})

    assert broker.broker_rack == "${env:HOME}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"config.providers": "x"}, r"x is named, but config\.providers\.x\.class is not set"),
        (provider("x", "NoSuchProvider"), "there is no JVM here to load it; known are .*EnvVarConfigProvider"),
    ],
)
def test_a_provider_that_cannot_be_used_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        broker_config(NODE | given)


def test_a_secret_from_elsewhere_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_TEST_SECRET", "hush-hush")
    env = provider("env", "EnvVarConfigProvider")

    told = describe_broker(broker_config(NODE | env | {"ssl.key.password": "${env:OTTLA_TEST_SECRET}"}))

    assert "hush-hush" not in repr(told)
