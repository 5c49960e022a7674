// SPDX-License-Identifier: MIT
// For a peer without Rust's standard library. Nothing here panics, but such a library must say what would happen.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
