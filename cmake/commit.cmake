# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=DIR -DGIT=git -DOUT=FILE -P commit.cmake: writes the commit that the sources stand at, with "+" where files differ from it, or
# "release" where they are no clone. The file is left alone where it says the same already.
cmake_minimum_required(VERSION 3.25)
set(commit "")
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} -c safe.directory=* rev-parse --short=7 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${GIT} -C ${SOURCE} -c safe.directory=* diff --quiet HEAD -- RESULT_VARIABLE differs ERROR_QUIET)
  if(commit AND differs)
    string(APPEND commit "+")
  endif()
endif()
if(NOT commit)
  set(commit release)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define SLIPSTREAM_COMMIT \"@commit@\"\n" @ONLY)
