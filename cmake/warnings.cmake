# SPDX-License-Identifier: Apache-2.0
# tenon_warnings(target): the project's warnings, for C++ and for nvcc's host compiler. -Wpedantic is left out
# under nvcc, whose generated code it objects to.
option(TENON_WERROR "Treat warnings as errors" OFF)

function(tenon_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
  if(TENON_WERROR)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
endfunction()
