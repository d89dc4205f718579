"""Fetches the files that our patches replace functions of, as released, into ``.tools/engines``.

These are Transformer Engine's of seven releases (``.tools/engines/VERSION``) and megatron-core's
(``.tools/engines/megatron-core-VERSION``), which can't be installed here: one needs a GPU's
libraries, the other another Python. ``python -m tests.engines.fetch`` in a few seconds: the wheels
have up to 280 MB each, so only these files of each are read, by requests of ranges. pip does it
(``.tools/engines/pip``, pinned in requirements.txt since these parts of it are private), with the
index, proxy and certificates that are configured for it. A file is taken only if its sha256 is that
of the file that was read when the patch was written.
"""

import hashlib
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGINES = ROOT / ".tools" / "engines"
PACKAGE = "transformer-engine-cu13"
WORDS = ("--only-binary=:all:", "--python-version=3.12", "--platform=manylinux_2_28_x86_64")
CORE, CORE_VERSION = "megatron-core", "0.18.0"
FILE = "transformer_engine/pytorch/optimizers/fused_adam.py"
RELEASES = {
    "2.12.0": "1c522eb6d2f752d58f81a166d5d93c135c59078945bbbd124f96b033a9cc358e",
    "2.13.0": "ecdf227bfe930254cc16dbd2a40842d131e2d2e54f122461ae8c54671e82df97",
    "2.14.1": "c568493a65938d81863a2bac31230c5710051041ccb6ba010bcccaa164514beb",
    "2.16.1": "9bdfea0ff04fd2898220a6d5b61fb036904fd7ece4229d1ee6f4cfb863700504",
    "2.17.1": "e7d493f0bc05f4c64dd7dd192b3f5c9bc951588c7a3358017ee2fe8a6a04f3ce",
    "2.19.0": "b00894021874e862c50f66fd9090c12af8efd90044bd6d6c62835acf4f2046f3",
    "2.20.2": "9afe31d10a85871d377cee3efa004cd28bfd4152cdf70c19b2601dc5ae2bbfd6",
}
"""The sha256 of FILE by release. 2.14.0 and 2.15.0 have the file of 2.14.1, 2.16.0 that of 2.16.1,
2.17.0 and 2.18.0 that of 2.17.1."""
_GEMM = {
    "2.12.0": "106ba95449d4e356235a62ee0eedf6b74c267f4bed6db125d4ac0fcf6ad1c240",
    "2.13.0": "106ba95449d4e356235a62ee0eedf6b74c267f4bed6db125d4ac0fcf6ad1c240",
    "2.14.1": "3209b235e94899f82a3779de30d0fc720ee178231acbdf84bd068fdfa20c5f78",
    "2.16.1": "ab7cc4601d887967f8e81272a1419405cc928ea7177bee0d7f15b16ff828e9c9",
    "2.17.1": "2adeac33f4b4020b412cb323e60aca78c6b4a5ab488984066811dc9ef3fbe4ae",
    "2.19.0": "13dea0ee91351fc1ff5eb96aaaac1bce2de397799a3a83c0ea69f25784903f8f",
    "2.20.2": "27cbf7666dd7479c29b857092340f8baf41fd042e9208eae2bb5b1819a66cfe9",
}
"""The sha256 of ``cpp_extensions/gemm.py`` by release."""
_APPLY = {
    "2.12.0": "19323fdb9c949fc2a6faac8a88cc958d5bb07743f9b10478fa8a0e2afad73752",
    "2.13.0": "19323fdb9c949fc2a6faac8a88cc958d5bb07743f9b10478fa8a0e2afad73752",
    "2.14.1": "19323fdb9c949fc2a6faac8a88cc958d5bb07743f9b10478fa8a0e2afad73752",
    "2.16.1": "19323fdb9c949fc2a6faac8a88cc958d5bb07743f9b10478fa8a0e2afad73752",
    "2.17.1": "19323fdb9c949fc2a6faac8a88cc958d5bb07743f9b10478fa8a0e2afad73752",
    "2.19.0": "f456460c1df27894542dc8757f1964c94d00ed1d54549c727f0181c852592388",
    "2.20.2": "f456460c1df27894542dc8757f1964c94d00ed1d54549c727f0181c852592388",
}
"""The sha256 of ``optimizers/multi_tensor_apply.py`` by release."""
_CORE = {
    "megatron/core/dist_checkpointing/serialization.py": (
        "2edfab7d90b16276e8d2bf925ed86c7e6c4002b0d16db9a35f148dc7e91d7267"
    ),
    "megatron/core/dist_checkpointing/strategies/filesystem_async.py": (
        "13de462ec81bb1fb6e982fcd1eb7a63e72defa0506255171abe916f014c99e9f"
    ),
    "megatron/core/dist_checkpointing/strategies/fully_parallel.py": (
        "9b05e44e6cba180b267953f99e3141f4cce7b71dd685805085ab2b1948c47ebb"
    ),
    "megatron/core/dist_checkpointing/strategies/torch.py": (
        "72f84706f532e59f57b77bbdb96a5a936451b620b39b3dc6efd06aeea1834f61"
    ),
    "megatron/core/distributed/distributed_data_parallel.py": (
        "5b0a65ea241bc98d4264832439538d506926553d48e3ce52d0e07fadad421c3c"
    ),
    "megatron/core/distributed/param_and_grad_buffer.py": (
        "3fa532862dbf10bde79efac5c8f1aeb539df12d0378b99d0a48552d6a7168d3b"
    ),
    "megatron/core/extensions/transformer_engine.py": (
        "a463488823796d184746bfce4e9f4a4f41620cc04f5a17de6f9a2e22d6ab61bf"
    ),
    "megatron/core/optimizer/clip_grads.py": (
        "e2b7d4e0222219081cdce8432fff5689b40af30f049434cde20dc026464bd50f"
    ),
    "megatron/core/optimizer/distrib_optimizer.py": (
        "d9a85a051307f771d8d16495840798a4ec61fad0d25d8062050362fab4574d33"
    ),
    "megatron/core/optimizer/layer_wise_optimizer.py": (
        "c8b53bd3b30135a175b1a750eea8efc363f21361e2d4cf436db4d619b0fa4c42"
    ),
    "megatron/core/optimizer/optimizer.py": (
        "bc70856659b0485d78c7876cd0a1393354a40691f5a459fe551efc20d6b9672a"
    ),
    "megatron/core/pipeline_parallel/schedules.py": (
        "946a71d2fd69dfebaceab461bd8e01a37cc4797221651d64943c2c5c9c4e6f0a"
    ),
    "megatron/core/transformer/attention.py": (
        "5f335eb39883b7d99a8a770ff3b6ed3ce96df16360edc7285a23d8e4524e9b7a"
    ),
    "megatron/core/transformer/moe/moe_layer.py": (
        "680e0efc3d6e51e167934fc52002c762ce32448d12fbaf3f6ddba2ec6c316fe4"
    ),
    "megatron/core/transformer/moe/moe_utils.py": (
        "629c48538f2d69a2e110ec5f5b5925d20ccf541a7e960adff43ebb61d4528713"
    ),
    "megatron/core/transformer/moe/router.py": (
        "3f397084d1a7df2bc97d5740abee637f3bae96665c84e7063cc754c06510a893"
    ),
    "megatron/core/transformer/moe/token_dispatcher.py": (
        "0c1c98aef81b9ed1904e61cca390f97f8ffd9a71b267ebfad6c0d88a72a6d374"
    ),
    "megatron/core/utils.py": ("1e5db067bc135636dfd70520be0eb5cffbbbb72f49bdcc396a57bcb66f9ef307"),
}
"""The sha256 of megatron-core's files."""
Wheel = tuple[str, str]
"""Distribution and version."""


def files(wheel: Wheel) -> dict[str, str]:
    package, version = wheel
    if package == CORE:
        return _CORE
    return {
        FILE: RELEASES[version],
        "transformer_engine/pytorch/cpp_extensions/gemm.py": _GEMM[version],
        "transformer_engine/pytorch/optimizers/multi_tensor_apply.py": _APPLY[version],
    }


def folder(wheel: Wheel) -> Path:
    package, version = wheel
    return ENGINES / (f"{package}-{version}" if package == CORE else version)


WHEELS: tuple[Wheel, ...] = (*((PACKAGE, version) for version in RELEASES), (CORE, CORE_VERSION))


def main() -> None:
    """Fetch the files of all wheels, unless they are there.

    Raises:
        RuntimeError: the index lacks a release, or a file is not the one that was read.
    """
    missing = [
        wheel for wheel in WHEELS if not all(_is_there(wheel, name) for name in files(wheel))
    ]
    if missing:
        sys.path.insert(0, str(ENGINES / "pip"))
        for wheel, name, data in _members(missing):
            if _sha256(data) != files(wheel)[name]:
                raise RuntimeError(f"{name} of {' '.join(wheel)} has sha256 {_sha256(data)}")
            target = folder(wheel) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def _is_there(wheel: Wheel, name: str) -> bool:
    target = folder(wheel) / name
    return target.exists() and _sha256(target.read_bytes()) == files(wheel)[name]


def _members(wheels: Iterable[Wheel]) -> Iterator[tuple[Wheel, str, bytes]]:
    from pip._internal.cli.cmdoptions import make_target_python
    from pip._internal.commands import create_command
    from pip._internal.network.lazy_wheel import LazyZipOverHTTP
    from pip._vendor.packaging.specifiers import SpecifierSet

    command = create_command("download")
    with command.main_context():
        options, _ = command.parse_args(list(WORDS))
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session, make_target_python(options))
        for wheel in wheels:
            package, version = wheel
            found = finder.find_best_candidate(package, SpecifierSet(f"=={version}"))
            if found.best_candidate is None:
                raise RuntimeError(f"the package index has no {package} {version}")
            address = found.best_candidate.link.url_without_fragment
            with LazyZipOverHTTP(address, session) as remote, zipfile.ZipFile(remote) as archive:
                for name in files(wheel):
                    yield wheel, name, archive.read(name)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    main()
