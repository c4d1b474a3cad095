"""Container images made from files: one uncompressed layer in an OCI archive, the same bytes for the same files."""

import hashlib
import io
import json
import os
import platform
import tarfile
from pathlib import Path, PurePosixPath

from .places import Problem

MEDIA = "application/vnd.oci.image"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def write(archive, name, entrypoint, files):
    """Writes `archive` with the image `name`; `files` maps each path in it to the file or directory it is made of."""
    name = full_name(name)
    work = Path(archive).with_name(f".{Path(archive).name}.layer")
    try:
        write_layer(work, files)
        digest = file_digest(work)
        config = encode(
            {
                "architecture": ARCHITECTURE,
                "os": "linux",
                "config": {"Entrypoint": entrypoint, "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
                "rootfs": {"type": "layers", "diff_ids": [digest]},
            }
        )
        manifest = encode(
            {
                "schemaVersion": 2,
                "mediaType": f"{MEDIA}.manifest.v1+json",
                "config": described(config, f"{MEDIA}.config.v1+json"),
                "layers": [{"mediaType": f"{MEDIA}.layer.v1.tar", "digest": digest, "size": work.stat().st_size}],
            }
        )
        entry = described(manifest, f"{MEDIA}.manifest.v1+json")
        entry["platform"] = {"architecture": ARCHITECTURE, "os": "linux"}
        entry["annotations"] = {
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name.rsplit(":", 1)[1],
        }
        index = encode({"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json", "manifests": [entry]})
        new = Path(archive).with_name(f".{Path(archive).name}.new")
        with tarfile.open(new, "w") as out:
            add_bytes(out, "oci-layout", encode({"imageLayoutVersion": "1.0.0"}))
            add_bytes(out, "index.json", index)
            for blob in (manifest, config):
                add_bytes(out, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
            add_file(out, f"blobs/sha256/{digest.removeprefix('sha256:')}", work, 0o644)
        new.rename(archive)
    finally:
        work.unlink(missing_ok=True)


def full_name(name):
    """The name as a kubelet asks for it: with a registry, if only the implied one."""
    if ":" not in name.rsplit("/", 1)[-1]:
        raise Problem(f"{name!r} has no tag: say NAME:TAG")
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    return name if "." in first or ":" in first or first == "localhost" else f"docker.io/{name}"


def write_layer(layer, files):
    with tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as tar:
        made = set()
        for inside, source in sorted(flattened(files).items()):
            path = PurePosixPath(inside.lstrip("/"))
            for parent in [*reversed(path.parents)][1:]:
                if parent not in made:
                    made.add(parent)
                    directory = tarfile.TarInfo(f"{parent}/")
                    directory.type, directory.mode = tarfile.DIRTYPE, 0o755
                    tar.addfile(directory)
            add_file(tar, str(path), source, 0o755 if os.access(source, os.X_OK) else 0o644)


def flattened(files):
    flat = {}
    for inside, source in ((inside, Path(source)) for inside, source in files.items()):
        if source.is_dir():
            flat |= {f"{inside}/{f.relative_to(source)}": f for f in source.rglob("*") if f.is_file()}
        elif source.is_file():
            flat[inside] = source
        else:
            raise Problem(f"{source} is to become {inside} in an image, but is no file or directory")
    return flat


def add_file(tar, name, source, mode):
    info = tarfile.TarInfo(name)
    with open(source, "rb") as data:
        info.size, info.mode = os.fstat(data.fileno()).st_size, mode
        tar.addfile(info, data)


def add_bytes(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    tar.addfile(info, io.BytesIO(data))


def file_digest(path):
    with open(path, "rb") as data:
        return "sha256:" + hashlib.file_digest(data, "sha256").hexdigest()


def described(blob, media):
    return {"mediaType": media, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}


def encode(value):
    return json.dumps(value, separators=(",", ":")).encode()
