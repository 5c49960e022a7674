// SPDX-License-Identifier: MIT
//! Finds an installed Coffer and links it: COFFER_LIB_DIR, or what pkg-config says of `coffer`.

use std::{env, path::PathBuf, process::Command};

fn main() {
    println!("cargo:rerun-if-env-changed=COFFER_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let replace = env::var_os("CARGO_FEATURE_REPLACE").is_some();
    let library = if replace { "libcoffer.a" } else { "libcoffer_core.a" };
    let folder = folder().unwrap_or_else(|why| fail(&why));
    if !folder.join(library).is_file() {
        fail(&format!("{} is not in {}", library, folder.display()));
    }
    println!("cargo:rustc-link-search=native={}", folder.display());
    if replace {
        // Whole: the linker sees the C library's malloc in programs that never name it, and would leave ours out.
        println!("cargo:rustc-link-lib=static:+whole-archive=coffer");
    } else {
        println!("cargo:rustc-link-lib=static=coffer_core");
    }
}

fn folder() -> Result<PathBuf, String> {
    if let Some(folder) = env::var_os("COFFER_LIB_DIR") {
        return Ok(folder.into());
    }
    let asked = Command::new("pkg-config").args(["--variable=libdir", "coffer"]).output();
    match asked {
        Ok(done) if done.status.success() => Ok(String::from_utf8_lossy(&done.stdout).trim().into()),
        Ok(done) => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
        Err(error) => Err(format!("pkg-config: {}", error)),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("coffer: no installed Coffer was found ({}). `make install` makes one; COFFER_LIB_DIR, or", why);
    eprintln!("coffer: PKG_CONFIG_PATH for its pkgconfig folder, says where it is.");
    std::process::exit(1)
}
