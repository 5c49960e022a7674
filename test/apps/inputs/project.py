# SPDX-License-Identifier: MIT
"""Writes a small C project with a makefile: many short compilations, run side by side."""

from __future__ import annotations

from pathlib import Path

MAKEFILE = """\
CFLAGS = -O1 -g
OBJECTS = main.o $(patsubst %.c,%.o,$(wildcard part*.c))
check: program
\t./program
program: $(OBJECTS)
\t$(CC) -Wl,--build-id=none -o $@ $(sort $(OBJECTS))
$(OBJECTS): parts.h
clean:
\trm -f program *.o
.PHONY: check clean
"""

PART = """\
#include <stdlib.h>
#include <string.h>
#include "parts.h"
char *part{n}(int length) {{
  char *text = malloc((size_t)length + 1);
  for (int i = 0; i < length; ++i) text[i] = (char)('a' + (i * {n} + length) % 26);
  text[length] = 0;
  text = realloc(text, (size_t)length * 2 + 1);
  memmove(text + length, text, (size_t)length + 1);
  return text;
}}
"""


def write(directory: Path, files: int) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "Makefile").write_text(MAKEFILE)
    for n in range(files):
        (directory / f"part{n}.c").write_text(PART.format(n=n))
    names = [f"part{n}" for n in range(files)]
    (directory / "parts.h").write_text("".join(f"char *{name}(int length);\n" for name in names))
    calls = "".join(f"  text = {name}({10 + n * 3}); puts(text); free(text);\n" for n, name in enumerate(names))
    (directory / "main.c").write_text(
        f'#include <stdio.h>\n#include <stdlib.h>\n#include "parts.h"\nint main(void) {{\n  char *text;\n{calls}}}\n'
    )
