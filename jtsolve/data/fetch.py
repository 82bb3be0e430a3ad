"""Downloads data sets through a cache, or reads them from a local folder; always verified by hash.

The cache holds decompressed files, in the folder `JTSOLVE_CACHE` or else the system's cache folder.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtsolve.core.files import read_bytes, write_atomically
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from jtsolve.data.registry import DataSet

_TIMEOUT = 30
"""Timeout of a server that sends nothing, in seconds."""


def cache_folder() -> Path:
    """Returns the cache folder, which need not exist."""
    import pooch

    return Path(os.environ.get("JTSOLVE_CACHE") or pooch.os_cache("jtsolve"))


def cached_path(data_set: DataSet) -> Path:
    """Returns the path of a data set in the cache, whether it is there or not."""
    return cache_folder() / data_set.file


def download(data_set: DataSet) -> Path:
    """Downloads a data set into the cache unless it is there intact, and returns its path.

    A file enters the cache only when it is complete and verified.

    Raises:
        InputError: the download failed, the hash does not match, or the cache cannot be written.
    """
    import pooch

    target = cached_path(data_set)
    _make_folder(target.parent)
    # pooch logs downloads at level INFO to standard error, which is for errors here.
    pooch.get_logger().setLevel(logging.WARNING)
    try:
        pooch.retrieve(
            data_set.url,
            known_hash=f"sha256:{data_set.sha256}",
            fname=target.name,
            path=target.parent,
            downloader=_download_unpacked,
        )
    except ValueError:  # the error of pooch for a wrong hash
        raise _mismatch(data_set, data_set.url) from None
    except OSError as error:  # includes the errors of requests
        raise InputError(
            data_set.url,
            "",
            f"data set '{data_set.name}' cannot be downloaded ({_first_line(error)})",
            "check the network and try again, or give a folder that contains it with --from",
        ) from None
    return target


def copied(data_set: DataSet, folder: Path) -> Path:
    """Copies a data set from a folder into the cache, verified, and returns its path there.

    The file may be gzipped (.gz), and in the folder itself or in the subfolder of its kind.

    Raises:
        InputError: it is missing, cannot be read or written, or its hash does not match.
    """
    if not folder.is_dir():
        raise InputError(str(folder), "", "there is no such folder", "check the path")
    names = [data_set.file, Path(data_set.file).name]
    places = [folder / f"{name}{ending}" for name in names for ending in ("", ".gz")]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise InputError(
            str(folder),
            "",
            f"data set '{data_set.name}' is not in it, as {data_set.file} or {data_set.file}.gz",
            "give the folder that contains it, or omit --from to download it",
        )
    content = read_bytes(path)
    if hashlib.sha256(content).hexdigest() != data_set.sha256:
        raise _mismatch(data_set, str(path))
    target = cached_path(data_set)
    _make_folder(target.parent)
    write_atomically(target, content)
    return target


def _download_unpacked(url: str, output_file: str, pooch_object: Any) -> None:
    """Downloads to a temporary file and decompresses it, before pooch checks the hash and renames it."""
    import pooch

    pooch.HTTPDownloader(timeout=_TIMEOUT)(url, output_file, pooch_object)
    try:
        content = read_bytes(output_file)
    except InputError as error:
        raise InputError(url, error.place, error.reason, "try again later") from None
    Path(output_file).write_bytes(content)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            str(folder),
            "",
            f"the cache cannot be created ({error.strerror})",
            "name another folder in the environment variable JTSOLVE_CACHE",
        ) from None


def _mismatch(data_set: DataSet, source: str) -> InputError:
    return InputError(
        source,
        "",
        f"data set '{data_set.name}' does not have the SHA-256 {data_set.sha256}: it is damaged or another "
        "version",
        "download it again, or from another source",
    )


def _first_line(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).splitlines()[0]
