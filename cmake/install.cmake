# SPDX-License-Identifier: Apache-2.0
# `cmake --install build/release --prefix P`: the program, the library, headers, what finds them (CMake package, slipstream.pc), the Python
# module, man pages and completions. All paths in it are relative, so that the tree may be moved. Components are the Debian packages'.
if(NOT DEFINED CMAKE_INSTALL_LIBDIR AND EXISTS /etc/debian_version AND CMAKE_LIBRARY_ARCHITECTURE)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "Where libraries are installed")
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # cpack installs what `installable` has built
add_custom_target(installable DEPENDS slipstream slipstream_lib)
set(SLIP_PYTHON_DIR lib/python3/dist-packages CACHE PATH "Where the Python package is installed")

file(RELATIVE_PATH slip_bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(slipstream PROPERTIES INSTALL_RPATH $ORIGIN/${slip_bin_to_lib})
install(TARGETS slipstream RUNTIME COMPONENT slipstream)
install(TARGETS slipstream_lib EXPORT slipstream
  LIBRARY COMPONENT libslipstream0 NAMELINK_COMPONENT libslipstream-dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/slipstream.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libslipstream-dev)
install(DIRECTORY include/slipstream DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libslipstream-dev FILES_MATCHING PATTERN *.h)
if(TARGET slipstream-train)
  install(TARGETS slipstream-train RUNTIME COMPONENT train OPTIONAL)
endif()
if(TARGET slipstream_cuda)
  install(TARGETS slipstream_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda OPTIONAL)  # found beside the library
endif()

# find_package(slipstream) gives slipstream::slipstream.
set(slip_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/slipstream)
install(EXPORT slipstream NAMESPACE slipstream:: FILE slipstream-config.cmake DESTINATION ${slip_package_dir} COMPONENT libslipstream-dev)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/slipstream-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/slipstream-config-version.cmake DESTINATION ${slip_package_dir} COMPONENT libslipstream-dev)
file(RELATIVE_PATH slip_pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/slipstream.pc.in slipstream.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/slipstream.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT libslipstream-dev)

# Man pages and completions, made by the program of its own options. No part of the build: while installing.
install(CODE "
  execute_process(COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:slipstream> pages ${CMAKE_BINARY_DIR}/pages COMMAND_ERROR_IS_FATAL ANY)
" COMPONENT slipstream)
install(DIRECTORY ${CMAKE_BINARY_DIR}/pages/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT slipstream)
set(slip_share ${CMAKE_INSTALL_DATADIR})
install(FILES ${CMAKE_BINARY_DIR}/pages/slipstream.bash DESTINATION ${slip_share}/bash-completion/completions RENAME slipstream COMPONENT slipstream)
install(FILES ${CMAKE_BINARY_DIR}/pages/_slipstream DESTINATION ${slip_share}/zsh/site-functions COMPONENT slipstream)
install(FILES ${CMAKE_BINARY_DIR}/pages/slipstream.fish DESTINATION ${slip_share}/fish/vendor_completions.d COMPONENT slipstream)

if(TARGET slip_python)
  add_dependencies(installable slip_python)
  file(RELATIVE_PATH slip_python_to_lib /${SLIP_PYTHON_DIR}/slipstream /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(slip_python PROPERTIES INSTALL_RPATH $ORIGIN:$ORIGIN/${slip_python_to_lib})  # a wheel has both in one folder
  get_property(slip_python_sources GLOBAL PROPERTY SLIP_PYTHON_SOURCES)
  install(TARGETS slip_python LIBRARY DESTINATION ${SLIP_PYTHON_DIR}/slipstream COMPONENT python3-slipstream)
  install(FILES ${slip_python_sources} DESTINATION ${SLIP_PYTHON_DIR}/slipstream COMPONENT python3-slipstream)
endif()
