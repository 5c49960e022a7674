// SPDX-License-Identifier: MIT
//! Where the library itself says `new` and `delete`, it means its own: a program may be linked with another allocator,
//! whose operators would come before those of libstdc++ and do not fit to this `free`.

const OPERATORS: [(&str, &str); 6] = [
    ("_Znwm", "TCMallocInternalNew"),
    ("_Znam", "TCMallocInternalNewArray"),
    ("_ZdlPv", "TCMallocInternalDelete"),
    ("_ZdlPvm", "TCMallocInternalDeleteSized"),
    ("_ZdaPv", "TCMallocInternalDeleteArray"),
    ("_ZdaPvm", "TCMallocInternalDeleteArraySized"),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for (operator, own) in OPERATORS {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--defsym={operator}={own}");
    }
}
