# SPDX-License-Identifier: Apache-2.0
# Three helpers, used by every folder's CMakeLists.txt:
#   slip_library(NAME SOURCES a.cc ... DEPS slip_base ... [PLAIN] [HOT])   PLAIN: without the precompiled header; HOT: loops over numbers or bytes
#   slip_test(NAME SOURCES a_test.cc ... DEPS ... [LONG])      one GoogleTest binary, one ctest entry
#   slip_executable(NAME SOURCES ... DEPS ...)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)  # programs share the precompiled header of the libraries
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Where CMake's own -O3 stands it becomes -O2, which compiles sooner; HOT libraries keep -O3 (docs/decisions/0014).
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
endif()

find_program(SLIP_CCACHE ccache)
if(SLIP_CCACHE AND NOT SLIP_NO_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SLIP_CCACHE})
endif()

# -ffp-contract=off: a fused multiply-add happens where the source says fma and nowhere else, so that gcc and clang,
# -O2 and -O3 compute the same bits (the simulator's promise, and contract W's).
add_library(slip_flags INTERFACE)
target_compile_options(slip_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers -ffp-contract=off)
# g++ 12 warns of overlapping copies inside std::string that are none (GCC bug 105651, mended in 13): walls of text that hide true warnings.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(slip_flags INTERFACE -Wno-restrict)
endif()
target_include_directories(slip_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)

# One precompiled header of what nearly every file includes (standard library, fmt), made with slip_base and used by all targets that say
# so: a quarter of the build's time (docs/decisions/0014). Files still include what they use.
set(SLIP_PRECOMPILED <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <set> <span> <string>
  <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)

function(slip_precompiled name)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  if(name STREQUAL slip_base)
    target_precompile_headers(${name} PRIVATE ${SLIP_PRECOMPILED})
  else()
    target_precompile_headers(${name} REUSE_FROM slip_base)
  endif()
endfunction()

# Folders that say UNITY n compile n files at a time: their headers and templates are read once for all of them, which halves the processor
# time of a first build. Folders that people change most (decode, lm, nn, kernels) do not: there a change compiles one file.
option(SLIP_UNITY "Compile several files at a time where a folder says so" ON)

function(slip_unity name files)
  if(SLIP_UNITY AND files)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
  endif()
endfunction()

function(slip_library name)
  cmake_parse_arguments(A "PLAIN;HOT" "UNITY" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC slip_flags ${A_DEPS})
  slip_unity(${name} "${A_UNITY}")
  if(A_HOT)  # the precompiled header is for the others' level
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O3>)
  elseif(NOT A_PLAIN)
    slip_precompiled(${name})
  endif()
endfunction()

function(slip_executable name)
  cmake_parse_arguments(A "PLAIN" "UNITY" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE slip_flags ${A_DEPS})
  slip_unity(${name} "${A_UNITY}")
  if(NOT A_PLAIN)
    slip_precompiled(${name})
  endif()
endfunction()

# What tests compile with: -O1, since most of a first build's time went into optimising code that runs once, and a precompiled header of
# their own with GoogleTest in it. A file of tests takes 0.6 of the processor time (docs/decisions/0014). The code under test is optimised as ever.
function(slip_test_header)
  if(TARGET slip_test_header)
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_header.cc CONTENT "")
  add_library(slip_test_header STATIC ${CMAKE_BINARY_DIR}/test_header.cc)
  target_link_libraries(slip_test_header PUBLIC slip_flags fmt::fmt GTest::gtest GTest::gmock)
  target_compile_options(slip_test_header PRIVATE $<$<CONFIG:Release>:-O1>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_precompile_headers(slip_test_header PRIVATE ${SLIP_PRECOMPILED} <gtest/gtest.h> <gmock/gmock.h>)
  endif()
endfunction()

# A LONG test carries the ctest label "long" and runs only under `./run test --long`.
function(slip_test name)
  cmake_parse_arguments(A "LONG;PLAIN" "" "SOURCES;DEPS" ${ARGN})
  if(NOT SLIP_TESTS)
    return()
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE slip_flags fmt::fmt ${A_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  slip_test_header()
  if(NOT A_PLAIN AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_precompile_headers(${name} REUSE_FROM slip_test_header)
  endif()
  target_compile_definitions(${name} PRIVATE
    SLIP_FIXTURES="${CMAKE_SOURCE_DIR}/tests/fixtures" SLIP_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    SLIP_SHARED_DATA="${CMAKE_SOURCE_DIR}/../shared/data")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 ENVIRONMENT XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/test-cache)
  if(A_LONG)
    set_tests_properties(${name} PROPERTIES LABELS long TIMEOUT 7200)
  endif()
endfunction()
