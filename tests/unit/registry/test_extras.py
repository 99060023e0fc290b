"""What a message says to type when an extra is missing."""

import os
import subprocess
import sys
from pathlib import Path

from shoal.registry.extras import install_command


def test_an_extra_is_added_to_what_is_installed():
    assert install_command("postgres") == "pip install 'shoal[postgres]'"


def test_a_checkout_that_is_not_installed_is_found_by_its_folder(tmp_path):
    source = Path(__file__).parents[3] / "src"
    code = (
        "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p or p.endswith('deps')]\n"
        "from shoal.registry.extras import install_command; print(install_command('web'))"
    )
    (tmp_path / "deps").mkdir()
    msgspec = Path(sys.modules["msgspec"].__file__).parent
    (tmp_path / "deps" / "msgspec").symlink_to(msgspec)
    path = os.pathsep.join([str(source), str(tmp_path / "deps")])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout == f"pip install -e '{source.parent}[web]'\n", done.stderr
