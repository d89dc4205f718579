"""The software bill of materials of a chart's package: SPDX 2.3 as JSON.

https://spdx.github.io/spdx-spec/v2.3/. The chart's files are listed with their digests; the images
that it runs are packages that it depends on, by the reference of the default values.
"""

import hashlib
import io
import re
import tarfile
from typing import Any

import yaml

from scripts.archive import PLACES

Document = dict[str, Any]
LICENSE = "Apache-2.0"
_NAME = "megatron-dpo"


def document(package: bytes, date: str) -> Document:
    """Return the SBOM of a chart's package."""
    contents = _contents(package)
    chart = yaml.safe_load(contents["Chart.yaml"])
    files = [_file(name, data) for name, data in contents.items()]
    digest = hashlib.sha256(package).hexdigest()
    packages = [
        _chart(chart, digest, files),
        *(_launcher(chart, place, contents[place]) for place in PLACES),
        *map(_image, yaml.safe_load(chart["annotations"]["artifacthub.io/images"])),
    ]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{_NAME}-{chart['version']}",
        "documentNamespace": f"https://spdx.org/spdxdocs/{_NAME}-{chart['version']}-{digest}",
        "creationInfo": {
            "created": f"{date}T00:00:00Z",
            "creators": ["Tool: megatron-dpo make release"],
        },
        "packages": packages,
        "files": files,
        "relationships": _relationships(packages, files),
    }


def _contents(package: bytes) -> dict[str, bytes]:
    """Return the files of a package by their path below the chart."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(package), mode="r:gz") as tar:
        for member in tar.getmembers():
            opened = tar.extractfile(member)
            if opened is not None:
                found[member.name.partition("/")[2]] = opened.read()
    return dict(sorted(found.items()))


def _id(kind: str, name: str) -> str:
    return f"SPDXRef-{kind}-{re.sub('[^A-Za-z0-9.-]+', '-', name)}"


def _file(name: str, data: bytes) -> Document:
    # By the path: two names may differ in characters only that an identifier cannot have.
    return {
        "SPDXID": _id("File", f"{name}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"),
        "fileName": f"./{name}",
        "checksums": [
            {"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
            {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()},
        ],
        "licenseConcluded": LICENSE,
        "copyrightText": "NOASSERTION",
    }


def _chart(chart: Document, digest: str, files: list[Document]) -> Document:
    sums = sorted(each["checksums"][0]["checksumValue"] for each in files)
    code = hashlib.sha1("".join(sums).encode()).hexdigest()
    return _package(
        "Chart",
        chart["name"],
        str(chart["version"]),
        f"pkg:helm/{_NAME}@{chart['version']}",
        checksums=[{"algorithm": "SHA256", "checksumValue": digest}],
        filesAnalyzed=True,
        packageVerificationCode={"packageVerificationCodeValue": code},
        licenseInfoFromFiles=["NOASSERTION"],
        licenseConcluded=LICENSE,
        licenseDeclared=LICENSE,
        primaryPackagePurpose="APPLICATION",
    )


def _launcher(chart: Document, place: str, archive: bytes) -> Document:
    name = place.rpartition("/")[2].removesuffix(".tar.bz2")
    digest = hashlib.sha256(archive).hexdigest()
    return _package(
        "Launcher",
        name,
        str(chart["version"]),
        f"pkg:generic/{_NAME}-{name}@{chart['version']}",
        checksums=[{"algorithm": "SHA256", "checksumValue": digest}],
        licenseConcluded=LICENSE,
        licenseDeclared=LICENSE,
        primaryPackagePurpose="SOURCE",
    )


def _image(image: Document) -> Document:
    repository, _, tag = image["image"].rpartition(":")
    name = repository.rpartition("/")[2]
    return _package(
        "Image",
        image["name"],
        tag,
        f"pkg:oci/{name}?repository_url={repository}&tag={tag}",
        primaryPackagePurpose="CONTAINER",
    )


def _package(kind: str, name: str, version: str, purl: str, **more: object) -> Document:
    return {
        "SPDXID": _id(kind, name),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": purl,
            }
        ],
        **more,
    }


def _relationships(packages: list[Document], files: list[Document]) -> list[Document]:
    chart, *others = packages
    kinds = {"SOURCE": "CONTAINS", "CONTAINER": "DEPENDS_ON"}
    rows = [(kinds[each["primaryPackagePurpose"]], each["SPDXID"]) for each in others]
    rows += [("CONTAINS", each["SPDXID"]) for each in files]
    described = ("SPDXRef-DOCUMENT", "DESCRIBES", chart["SPDXID"])
    return [
        {"spdxElementId": left, "relationshipType": kind, "relatedSpdxElement": right}
        for left, kind, right in [described, *((chart["SPDXID"], *row) for row in rows)]
    ]
