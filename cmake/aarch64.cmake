# SPDX-License-Identifier: Apache-2.0
# Cross compilation to 64-bit ARM from Debian, and running the result in qemu-user (`./run aarch64` does all of it):
#   cmake -S . -B build/aarch64 -G Ninja -DCMAKE_BUILD_TYPE=Release -DSLIP_TRAIN=OFF --toolchain cmake/aarch64.cmake
# The compiler is Debian's g++-aarch64-linux-gnu. The other libraries lie unpacked in SLIP_AARCH64_ROOT, so that no package of the
# system is replaced (installing them as foreign packages would upgrade their native twins).
# SLIP_AARCH64_CPU is the processor that qemu plays: a name of `qemu-aarch64-static -cpu help`.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(SLIP_AARCH64_ROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-root CACHE PATH "Where arm64 packages lie unpacked")
set(SLIP_AARCH64_CPU max CACHE STRING "Processor that qemu plays")
get_filename_component(root ${SLIP_AARCH64_ROOT} ABSOLUTE)
set(SLIP_CUDA OFF CACHE BOOL "Build the plug-in for NVIDIA devices where nvcc is found")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SLIP_AARCH64_ROOT SLIP_AARCH64_CPU)

set(CMAKE_FIND_ROOT_PATH ${root} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/aarch64-linux-gnu/pkgconfig:${root}/usr/share/pkgconfig)
set(CMAKE_CXX_FLAGS_INIT "-isystem ${root}/usr/include")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${root}/usr/lib/aarch64-linux-gnu:${root}/lib/aarch64-linux-gnu")

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -cpu ${SLIP_AARCH64_CPU} -L /usr/aarch64-linux-gnu
  -E LD_LIBRARY_PATH=${root}/usr/lib/aarch64-linux-gnu:${root}/lib/aarch64-linux-gnu)
