"""Folders and object stores, under one kind of address: a path, or a URL such as `s3://bucket/folder`.

Options of a store are those that the remote tier takes too: `aws_region`, `aws_endpoint`, ..., those of its HTTP client
with `client_` in front. What the environment says (AWS_ACCESS_KEY_ID) need not be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.port import Place

if TYPE_CHECKING:
    import obstore.store

_CLIENT: Final = "client_"
_BUFFER: Final = 8 << 20
STORAGE_DOC: Final = (
    "Settings of the object store by the names that obstore gives them, such as aws_region or aws_endpoint; what the "
    "environment says (AWS_ACCESS_KEY_ID) is taken too."
)


@dataclass(frozen=True, slots=True)
class Location:
    """Sent to tasks as it is."""

    url: str
    """A path of this machine, or a URL."""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_folder(self) -> bool:
        return "://" not in self.url

    def settings(self) -> dict[str, str]:
        """For libraries that take all settings of a store at once, as delta-rs does."""
        found = {name.removeprefix(_CLIENT): value for name, value in self.options.items()}
        if self._is_plain_http():
            found.setdefault("allow_http", "true")
        return found

    def _is_plain_http(self) -> bool:
        return any(value.startswith("http://") for name, value in self.options.items() if "endpoint" in name.lower())

    def open(self) -> obstore.store.ObjectStore:
        """OttlaError for an address or options that make no sense; the store itself is not asked."""
        try:
            import obstore.store
        except ModuleNotFoundError as error:
            raise missing(error) from None
        try:
            if self.is_folder:
                return obstore.store.LocalStore(self.url, mkdir=True)
            config = {name: value for name, value in self.options.items() if not name.startswith(_CLIENT)}
            client: dict[str, Any] = {
                name.removeprefix(_CLIENT): value for name, value in self.options.items() if name.startswith(_CLIENT)
            }
            if self._is_plain_http():
                client.setdefault("allow_http", "true")
            return obstore.store.from_url(self.url, config=config, client_options=client)  # type: ignore[arg-type,call-overload,no-any-return,unused-ignore]
        except (OSError, ValueError, TypeError) as error:
            raise OttlaError(f"{self.url} cannot be opened: {first_line(error)}") from error
        except Exception as error:  # obstore's own are many
            raise OttlaError(f"{self.url} cannot be opened: {first_line(error)}") from error


def location(address: str, options: Mapping[str, str], place: Place) -> Location:
    """Relative paths begin where the spec is."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Location(unquote(parts.path))
    if "://" in address:
        return Location(address.rstrip("/"), {name.lower(): value for name, value in options.items()})
    return Location(str((place.folder / address).resolve()))


@contextmanager
def as_os_errors() -> Iterator[None]:
    """Stores have errors of their own kind for what files have too."""
    from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError

    try:
        yield
    except NotFoundError as error:
        raise FileNotFoundError(first_line(error)) from error
    except AlreadyExistsError as error:
        raise FileExistsError(first_line(error)) from error
    except BaseError as error:
        raise OSError(first_line(error)) from error


class Upload:
    """A file that is there when it is closed, and not before; pyarrow writes into it."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        # it is kept until a part is full, and pyarrow may use its buffers again
        with as_os_errors():
            self._writer.write(data if isinstance(data, bytes) else bytes(data))
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Parts are sent when there is enough of them."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Called by pyarrow, also after an error: nothing is finished by it."""
        self.closed = True

    def finish(self) -> None:
        with as_os_errors():
            self._writer.close()


@contextmanager
def uploading(store: obstore.store.ObjectStore, path: str) -> Iterator[Upload]:
    """Finished if nothing went wrong meanwhile."""
    import obstore

    with as_os_errors():
        upload = Upload(obstore.open_writer(store, path, buffer_size=_BUFFER, max_concurrency=2))
    yield upload
    upload.finish()


def read_bytes(store: obstore.store.ObjectStore, path: str) -> bytes:
    import obstore

    with as_os_errors():
        return bytes(obstore.get(store, path).bytes())


def read_json(store: obstore.store.ObjectStore, path: str) -> Any:
    """None if it is not there."""
    try:
        return json.loads(read_bytes(store, path))
    except FileNotFoundError:
        return None


def create(store: obstore.store.ObjectStore, path: str, data: bytes) -> None:
    """FileExistsError if it is there."""
    import obstore

    with as_os_errors():
        obstore.put(store, path, data, mode="create")


def rename(store: obstore.store.ObjectStore, path: str, to: str) -> None:
    import obstore

    with as_os_errors():
        obstore.rename(store, path, to)


def delete(store: obstore.store.ObjectStore, path: str) -> None:
    import obstore

    try:
        with as_os_errors():
            obstore.delete(store, path)
    except FileNotFoundError:
        pass


class Stored(NamedTuple):
    path: str
    size: int
    modified: float


def listed(store: obstore.store.ObjectStore, prefix: str | None = None) -> list[Stored]:
    import obstore

    with as_os_errors():
        return sorted(
            Stored(each["path"], each["size"], each["last_modified"].timestamp())
            for chunk in obstore.list(store, prefix)
            for each in chunk
        )


def missing(error: ModuleNotFoundError) -> OttlaError:
    return OttlaError(f'{error.name} is not installed, which this needs: pip install "ottla[pipelines]"')


def first_line(error: BaseException) -> str:
    """Libraries in Rust append the structure of an error as a program sees it."""
    text = str(error).strip() or type(error).__name__
    return text.split("\n", 1)[0]
