# SPDX-License-Identifier: MIT
"""Whose a block is, by its call stack: the program's, at the first of its functions that did not only pass the request
on; or the C library's, which keeps some for itself until the end; or an interpreter's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

from coffer.trace.symbols import WRAPPER_FILES, is_wrapper

PROGRAM, RUNTIME, INTERPRETER = "the program", "the C library", "Python itself"

C_RUNTIME = re.compile(r"^(libc|ld|ld-linux[\w-]*|ld-musl[\w-]*|libpthread|libdl|libm|librt|libgcc_s|libcoffer\w*)"
                       r"(-[\d.]+)?\.so")
CPP_RUNTIME = re.compile(r"^(libstdc\+\+|libc\+\+|libc\+\+abi)\.so")
PYTHON = re.compile(r"^(python[\d.]*|libpython[\w.]*|libffi\.so[\d.]*|_ctypes\..*)$")
# Of an interpreter whose Python functions nobody names: what allocates for others; where it begins or loads modules.
PYTHON_ALLOCATES = re.compile(r"^_?Py(Mem|Object)_\w*[Aa]lloc|^_?PyObject_(New|Init)|^_PyBytes_FromSize$"
                              r"|^gc_alloc|^PyType_GenericAlloc")
PYTHON_BEGINS = re.compile(r"^(Py_Initialize|Py_Finalize|PyInterpreterState_|import_find_and_load)")
# In place of the module: of a Python function, and of one that a program compiles at run time.
INTERPRETED, COMPILED = "Python code", "compiled at run time"
# Likewise of code that is in no mapping any more, and of code in one without a file.
UNMAPPED, ANONYMOUS = "unmapped code", "code made at run time"
# What compiles such functions. Where they are named it is taken for what Python's interpreter is to its functions.
ENGINE = re.compile(r"^(node|nodejs|libnode\.so[\d.]*|libjvm\.so)$")
# Of Java's machine and library; they have no file.
JAVA_LIBRARY = re.compile(r"^((java|javax|jdk|sun|com\.sun)\.|[^.]*$)")
# The languages' own libraries, and what of them loads modules, whose memory Python keeps.
LANGUAGE_LIBRARY = re.compile(r"^<frozen |/lib/python3(\.\d+)?(\.zip)?/(?!(site|dist)-packages/)|^node:")
LOADING = re.compile(r"^<frozen (importlib|zipimport)|/importlib/\w+\.py$")
# The Rust library; also what it does for types that are no program's: numbers, strings, parameters.
RUST = re.compile(r"^_?<?(&?(mut )?)?(alloc|core|std|hashbrown|__rustc)::|^__(rust|rdl|rg)_"
                  r"|^<[&\[]*([A-Z]|[ui](8|16|32|64|128|size)|f32|f64|bool|char|str)\b.* as (alloc|core|std)::")
# A function of the C++ library's templates that calls what the program gave it, as a thread's does: with optimisation
# the program's own function may be a part of it. (Rust writes `::<` before arguments.)
CALLS_BACK = re.compile(r"^(std|__gnu_cxx)::(\w+(<.*>)?::)*\w*(?<!:)<")
# Functions of programs and other libraries that are malloc by another name.
OWN_NAMES = re.compile(
    r"^(xx?|z|ztry|g_|g_try_|git__|safe_?|Perl_safesys|sqlite3_?|OPENSSL_|CRYPTO_|av_|my_|uv__|mem_?|ngx_|apr_)"
    r"(m|c|z|re|m0)?alloc(0|z|_n|_array|_usable|_internal|_usable_internal)*$"
    r"|^(x|z|g_|git__|my_|OPENSSL_|CRYPTO_|av_)(str|strn|mem)dup(2|z)?$", re.IGNORECASE)
BEGINNING = ("_start", "__libc_start_main", "__libc_start_call_main", "_dl_start_user", "start_thread", "clone3")
# Functions of the C library whose caller has to free what they give, or to close it.
HANDS_OUT = frozenset("""
    malloc calloc realloc reallocarray memalign aligned_alloc posix_memalign valloc pvalloc
    strdup strndup wcsdup asprintf vasprintf getline getdelim getcwd get_current_dir_name realpath
    canonicalize_file_name
    fopen fdopen freopen popen tmpfile fmemopen open_memstream open_wmemstream fopencookie opendir fdopendir scandir
    scandirat getaddrinfo getifaddrs if_nameindex regcomp glob wordexp newlocale duplocale tempnam tsearch hcreate
    iconv_open argz_create argz_append argz_add envz_add backtrace_symbols setmntent fts_open ftw nftw mq_open sem_open
    posix_spawn_file_actions_addopen posix_spawn_file_actions_adddup2 pthread_attr_setaffinity_np getpwnam
    register_printf_function tdestroy insque obstack_begin obstack_newchunk""".split())
DECORATION = re.compile(r"^_*(GI_+)?(IO_)?(new_)?|(64|_chk|@.*|_internal)+$")


class Named(Protocol):
    @property
    def function(self) -> str: ...
    @property
    def module(self) -> str: ...
    @property
    def file(self) -> str: ...


Any = TypeVar("Any", bound=Named)


def plain(function: str) -> str:
    """`fopen` of `_IO_new_fopen64`."""
    return DECORATION.sub("", function)


def passes_on(places: Sequence[Named], at: int) -> bool:
    outer = places[at + 1].function if at + 1 < len(places) else ""
    name = places[at].function
    if "+0x" in name and OWN_NAMES.match(outer):
        return True  # a part of that function's work, without a name of its own
    return is_wrapper(places[at].module, name, outer) or bool(RUST.match(name) or OWN_NAMES.match(name))


def has_language(places: Sequence[Named]) -> bool:
    """Whether functions of a language that is interpreted, or compiled at run time, are named among them."""
    return any(place.module in (INTERPRETED, COMPILED) for place in places)


def is_library(place: Named) -> bool:
    """Of a language."""
    if place.module not in (INTERPRETED, COMPILED):
        return False
    return bool(LANGUAGE_LIBRARY.search(place.file) if place.file else JAVA_LIBRARY.match(place.function))


def is_engine(place: Named) -> bool:
    return bool(PYTHON.match(place.module) or ENGINE.match(place.module))


def readable(places: list[Any]) -> tuple[Any, ...]:
    """Where functions of a language are named, of its interpreter or compiler only what it did in the innermost one,
    without what leads from one to the next, and to what they call."""
    if not has_language(places):
        return tuple(places)
    kept: list[Any] = []
    is_inside = True
    for place in places:
        if is_inside or not is_engine(place):
            kept.append(place)
        is_inside = is_inside and (is_engine(place) or bool(C_RUNTIME.match(place.module)))
    return tuple(kept)


def unnamed_python(places: Sequence[Named]) -> int | None:
    """Of a stack that is the interpreter's because no Python function is named in it: which place allocates for what
    it runs. None: it begins, or loads a module."""
    if any(PYTHON_BEGINS.match(place.function) for place in places):
        return None
    return next((at for at, place in enumerate(places)
                 if PYTHON.match(place.module) and not PYTHON_ALLOCATES.match(place.function)), None)


def owner(places: Sequence[Named], program: str) -> tuple[str, int]:
    """The group, and which place is the one to name."""
    entry, is_python = "", False  # entry: the function of the C library that the program called
    in_library: int | None = None  # the first place in a language's library
    inlined_into: int | None = None  # the last place in the program's code that may have a function of it inside
    has_language_here = has_language(places)
    for at, place in enumerate(places):
        if place.module in (INTERPRETED, COMPILED):
            if LOADING.search(place.file):
                return INTERPRETER, at
            if not is_library(place):
                return PROGRAM, at
            in_library = at if in_library is None else in_library
        elif in_library is not None or (has_language_here and ENGINE.match(place.module)):
            continue
        elif place.function in BEGINNING or C_RUNTIME.match(place.module):
            entry = place.function
        elif PYTHON.match(place.module):
            is_python = True
        elif CPP_RUNTIME.match(place.module):
            if plain(entry) in HANDS_OUT:  # what it hands on is for the caller; the rest, such as a thread's, is not
                entry = ""
        elif passes_on(places, at):
            if CALLS_BACK.match(place.function) and not place.module.startswith(WRAPPER_FILES):
                inlined_into = at
            continue
        elif is_python and place.module == program:
            break  # a program that has an interpreter in it
        elif entry and "+0x" not in entry and plain(entry) not in HANDS_OUT:
            return RUNTIME, at
        else:
            return PROGRAM, at
    if in_library is not None or inlined_into is not None:
        return PROGRAM, in_library if in_library is not None else inlined_into or 0
    if is_python:
        return INTERPRETER, 0
    return (RUNTIME if places else PROGRAM), 0
