# SPDX-License-Identifier: Apache-2.0
# `./run package` (cpack in the build folder): Debian packages of what cmake/install.cmake installs, one a component.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME slipstream)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "Slipstream")
set(CPACK_PACKAGE_CONTACT "Slipstream maintainers <maintainers@slipstream.invalid>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL slipstream libslipstream0 libslipstream-dev)
if(TARGET slip_python)
  list(APPEND CPACK_COMPONENTS_ALL python3-slipstream)
endif()
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# Run between staging and packing: what Debian wants and an ordinary installation does not.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/debian/stage.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/debian/finish.cmake)
set(CPACK_SLIP_SOURCE_DIR ${CMAKE_SOURCE_DIR})

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# slip_deb(COMPONENT SECTION DEPENDS "a, b" SUMMARY "one line" TEXT "lines")
function(slip_deb component section)
  cmake_parse_arguments(A "" "DEPENDS;SUMMARY;TEXT" "" ${ARGN})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${component} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${A_DEPENDS}" PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${A_SUMMARY}\n${A_TEXT}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${A_SUMMARY}\n${A_TEXT}" PARENT_SCOPE)
endfunction()

set(slip_about "Slipstream decodes structured answers of vision-language-action models:
a model looks at its cameras and fills in a form with critical objects, an
explanation, a behaviour and a trajectory. It needs a fraction of the
forward passes, and gives the same bytes with every exact decoder.")
slip_deb(slipstream science
  SUMMARY "exact, fast decoding of driving models (command line)"
  TEXT "${slip_about}\n.\nThis package holds the program slipstream, its manual and completions for\nbash, zsh and fish.")
slip_deb(libslipstream0 libs
  SUMMARY "exact, fast decoding of driving models (shared library)"
  TEXT "${slip_about}\n.\nThis package holds the shared library.")
slip_deb(libslipstream-dev libdevel
  DEPENDS "libslipstream0 (= ${PROJECT_VERSION})"
  SUMMARY "exact, fast decoding of driving models (development files)"
  TEXT "${slip_about}\n.\nThis package holds the headers of the C and C++ interfaces, and what CMake\nand pkg-config need to find them.")
if(TARGET slip_python)
  get_property(slip_python_minor GLOBAL PROPERTY SLIP_PYTHON_MINOR)
  math(EXPR slip_next_minor "${slip_python_minor} + 1")
  slip_deb(python3-slipstream python
    DEPENDS "libslipstream0 (= ${PROJECT_VERSION}), python3-numpy, python3 (>= 3.${slip_python_minor}~), python3 (<< 3.${slip_next_minor})"
    SUMMARY "exact, fast decoding of driving models (Python module)"
    TEXT "${slip_about}\n.\nThis package holds the module slipstream for Python 3.")
  set(CPACK_DEBIAN_PYTHON3-SLIPSTREAM_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/cmake/debian/postinst ${CMAKE_SOURCE_DIR}/cmake/debian/prerm)
endif()
include(CPack)
