# SPDX-License-Identifier: MIT
"""A suite like the real ones, small enough for a second: programs that pass, fail, crash, hang and so on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from outside.suite import Origin, Suite, Test  # noqa: E402

PROGRAMS = {
    "passes": "int main(void) { return 0; }",
    "fails": '#include <stdio.h>\nint main(void) { puts("begun"); puts("block: failed: at 7"); return 3; }',
    "crashes": "#include <stdlib.h>\nint main(void) { abort(); }",
    "hangs": "#include <unistd.h>\nint main(void) { for (;;) pause(); }",
    "skips": '#include <stdio.h>\nint main(void) { puts("no such page size"); return 77; }',
    "broken": "int main(void) { return nothing_of_that_name; }",
    # It leaves a mark where the caller says, and fails only the first time.
    "sometimes": '#include <fcntl.h>\n#include <stdlib.h>\n'
                 'int main(void) { return open(getenv("MARK"), O_CREAT | O_EXCL, 0600) >= 0; }',
    "many": '#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n'
            'int main(void) { const char* c = getenv("OUTSIDE_CASE"); if (*c == 0) { puts("case: good\\ncase: bad");'
            ' puts("case: other"); return 0; } return strcmp(c, "good") != 0; }',
}


@pytest.fixture
def fake(tmp_path: Path) -> Suite:
    place = tmp_path / "package" / "suite-1.0"
    place.mkdir(parents=True)
    for name, text in PROGRAMS.items():
        (place / f"{name}.c").write_text(text)
    (place / "later.c").write_text("int main(void) { return 0; }")
    (place / "private.c").write_text("int main(void) { return 0; }")
    tests = [Test(name, f"{name}.c", timeout=0.5 if name == "hangs" else 20,
                  cases=name == "many", cases_left_out={"other": "it is not ours"} if name == "many" else {})
             for name in PROGRAMS]
    return Suite("fake", Origin("directory", str(tmp_path / "package"), "1.0"), "compiled", tuple(tests),
                 root="suite-*", present=("*.c",), left_out={"private": "its own interface"},
                 environment={"MARK": str(tmp_path / "mark")})
