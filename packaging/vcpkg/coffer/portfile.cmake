# SPDX-License-Identifier: MIT
# An overlay port, which builds the tree that it lies in: vcpkg install coffer --overlay-ports=packaging/vcpkg
set(SOURCE_PATH "${CURRENT_PORT_DIR}/../../..")
set(VCPKG_POLICY_DLLS_IN_STATIC_LIBRARY enabled)  # both kinds are there: a program chooses by the target's name

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS -DCOFFER_TESTS=OFF -DCOFFER_TOOLS=OFF)
vcpkg_cmake_build(TARGET coffer_libraries)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME Coffer CONFIG_PATH lib/cmake/Coffer)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
  "${CURRENT_PACKAGES_DIR}/bin" "${CURRENT_PACKAGES_DIR}/debug/bin" "${CURRENT_PACKAGES_DIR}/share/doc"
  "${CURRENT_PACKAGES_DIR}/share/man")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
