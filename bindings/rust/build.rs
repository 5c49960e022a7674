// SPDX-License-Identifier: MIT
//! Compiles Coffer from native/ as CMake does (cmake/CofferFlags.cmake, cmake/CofferLibraries.cmake; a test compares).
//! COFFER_LIB_DIR names a folder with an installed libcoffer_core.a and libcoffer.a that are linked instead.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// What is compiled of native/src, besides api/ and latency/. CMake's coffer_folders.
const FOLDERS: [&str; 18] = [
    "base", "cpu", "os/linux", "config", "harden", "observe", "budget", "guard", "size_class", "arena", "pool", "span",
    "large", "mixed", "exchange", "heap", "inspect", "latency",
];

/// What the feature `hardened` adds.
const HARDENED: [&str; 2] = ["hardened", "api/hardened"];

const FLAGS: [&str; 15] = [
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fasynchronous-unwind-tables",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-ffunction-sections",
    "-fno-plt",
    "-ftls-model=initial-exec",
    "-fno-builtin-malloc",
    "-fno-builtin-calloc",
    "-fno-builtin-realloc",
    "-fno-builtin-free",
    "-fno-builtin-aligned_alloc",
    "-fno-builtin-posix_memalign",
    "-fno-builtin-memalign",
];

fn main() {
    println!("cargo:rerun-if-env-changed=COFFER_LIB_DIR");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=native");
    if env::var_os("DOCS_RS").is_some() {
        return; // the documentation needs no library
    }
    let (replace, hardened) = (has("REPLACE"), has("HARDENED"));
    match env::var_os("COFFER_LIB_DIR") {
        Some(folder) => link_installed(Path::new(&folder), replace, hardened),
        None => compile(replace, hardened),
    }
}

fn has(feature: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{}", feature)).is_some()
}

/// The sources of one language in a folder, always in one order.
fn sources(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {}", folder.display(), why));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().map_or(false, |it| it == ending));
    files.sort();
    files
}

fn common(native: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    // Always optimised: a program that is built for debugging allocates no less.
    build.opt_level(2).pic(true).warnings(false).include(native.join("include"));
    build
}

fn cpp(native: &Path, replace: bool, hardened: bool, exceptions: &str) -> cc::Build {
    let mut build = common(native);
    build.cpp(true).cpp_link_stdlib(None).std("c++20").include(native.join("src"));
    if hardened {
        build.define("COFFER_ALLOCATOR_HEADER", "\"hardened/allocator.hpp\"").define("COFFER_HARDENED", None);
    } else {
        build.define("COFFER_ALLOCATOR_HEADER", "\"heap/allocator.hpp\"");
    }
    build.define(if replace { "COFFER_STATIC_LIBRARY" } else { "COFFER_PREFIX_ONLY" }, None);
    for flag in FLAGS {
        build.flag(flag);
    }
    build.flag(exceptions).flag_if_supported("-fno-semantic-interposition");
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
        build.flag_if_supported("-fcf-protection=return");
    }
    build
}

fn compile(replace: bool, hardened: bool) {
    let native = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("native");
    let (mut throws, mut rest) = (Vec::new(), Vec::new());
    let more: &[&str] = if hardened { &HARDENED } else { &[] };
    for folder in FOLDERS.iter().chain(&["api"]).chain(more) {
        for file in sources(&native.join("src").join(folder), "cpp") {
            let is_thrower = file.ends_with("api/new_handler.cpp");
            if is_thrower { &mut throws } else { &mut rest }.push(file);
        }
    }
    assert!(rest.len() > FOLDERS.len(), "sources are missing in {}", native.display());
    assert_eq!(throws.len(), 1, "operator new throws, in api/new_handler.cpp alone");
    let mut objects = cpp(&native, replace, hardened, "-fno-exceptions").files(rest).compile_intermediates();
    objects.extend(cpp(&native, replace, hardened, "-fexceptions").files(throws).compile_intermediates());
    let mut c = common(&native);
    c.std("c11").flag("-ffreestanding").flag("-fvisibility=hidden");
    objects.extend(c.files(sources(&native.join("rt/src"), "c")).compile_intermediates());
    let mut library = cc::Build::new();
    library.objects(objects);
    if replace {
        // Whole: the linker sees the C library's malloc in programs that never name it, and would leave ours out.
        library.link_lib_modifier("+whole-archive");
    }
    library.compile(if replace { "coffer" } else { "coffer_core" });
    println!("cargo:include={}", native.join("include").display());
}

fn link_installed(folder: &Path, replace: bool, hardened: bool) {
    let name = match (replace, hardened) {
        (true, true) => "coffer_hardened",
        (true, false) => "coffer",
        (false, false) => "coffer_core",
        // It is installed as a whole malloc only.
        (false, true) => fail("the feature hardened with COFFER_LIB_DIR needs the feature replace, too"),
    };
    if !folder.join(format!("lib{}.a", name)).is_file() {
        fail(&format!("lib{}.a is not in {}, which COFFER_LIB_DIR names", name, folder.display()));
    }
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=static{}={}", if replace { ":+whole-archive" } else { "" }, name);
}

fn fail(why: &str) -> ! {
    eprintln!("coffer: {}", why);
    std::process::exit(1)
}
