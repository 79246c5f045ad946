# SPDX-License-Identifier: Apache-2.0
# Run by cpack on the staged trees, one a component: no library search paths, manuals compressed, copyright and changelog.
foreach(component ${CPACK_COMPONENTS_ALL})
  set(tree ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr)
  file(GLOB_RECURSE binaries ${tree}/bin/* ${tree}/lib/*.so ${tree}/lib/*.so.*)
  foreach(binary ${binaries})
    if(NOT IS_SYMLINK ${binary})
      file(RPATH_REMOVE FILE ${binary})
    endif()
  endforeach()
  file(GLOB manuals ${tree}/share/man/man1/*.1)
  foreach(manual ${manuals})
    execute_process(COMMAND gzip -9n ${manual} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  if(EXISTS ${tree}/share/zsh/site-functions)
    file(RENAME ${tree}/share/zsh/site-functions ${tree}/share/zsh/vendor-completions)
  endif()
  set(documents ${tree}/share/doc/${component})
  file(COPY ${CPACK_SLIP_SOURCE_DIR}/cmake/debian/copyright DESTINATION ${documents}
       FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  file(COPY ${CPACK_SLIP_SOURCE_DIR}/cmake/debian/changelog DESTINATION ${documents}
       FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  execute_process(COMMAND gzip -9n ${documents}/changelog COMMAND_ERROR_IS_FATAL ANY)
endforeach()
