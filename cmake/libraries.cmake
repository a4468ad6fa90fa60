# SPDX-License-Identifier: Apache-2.0
# The two libraries. `tenon` is the CPU library and everything device-blind; `tenon_cuda` holds the kernels and the
# CUDA side of streams and memory, and is opened at run time from libtenon's own directory.
#
# Note [Whole archives]. Kernels and gradients are reached only through static registrars, which a linker drops from
# a plain static archive. In a static build `tenon` is therefore an interface around the archive that links it whole.
include(GNUInstallDirs)

set(folders core streams memory dispatch ops kernels kernels/cpu autograd autograd/gradients nn optim data amp jit
    profiler distributed)
list(TRANSFORM folders REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/\\1/*.cpp" OUTPUT_VARIABLE patterns)
file(GLOB tenon_sources CONFIGURE_DEPENDS ${patterns})
file(GLOB tenon_cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu
     ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cpp)
foreach(source IN LISTS tenon_sources)
  if(source MATCHES "/cuda_[^/]*$")
    list(REMOVE_ITEM tenon_sources ${source})
    list(APPEND tenon_cuda_sources ${source})
  endif()
endforeach()

# tenon_library(name sources...): creates target `name` and its alias; in a static build also the archive inside it.
function(tenon_library name)
  if(BUILD_SHARED_LIBS)
    add_library(${name} SHARED ${ARGN})
    set(object ${name})
    set(scope PUBLIC)
    target_link_options(${name} PRIVATE -Wl,-Bsymbolic-functions -Wl,--as-needed)
    set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0
      BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
  else()
    set(object ${name}_archive)
    add_library(${object} STATIC ${ARGN})
    set_target_properties(${object} PROPERTIES OUTPUT_NAME ${name})
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE
      "$<BUILD_INTERFACE:$<LINK_LIBRARY:WHOLE_ARCHIVE,${object}>>"
      "$<INSTALL_INTERFACE:$<LINK_LIBRARY:WHOLE_ARCHIVE,tenon::${object}>>")
  endif()
  add_library(tenon::${name} ALIAS ${name})
  set(${name}_object ${object} PARENT_SCOPE)
  tenon_warnings(${object})
  target_compile_features(${object} PUBLIC cxx_std_20)
  target_compile_options(${object} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>)
endfunction()

tenon_library(tenon ${tenon_sources})
target_include_directories(${tenon_object} PUBLIC $<BUILD_INTERFACE:${tenon_include}>)
target_include_directories(${tenon_object} SYSTEM PRIVATE ${tenon_dependency_includes})
target_link_libraries(${tenon_object} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
foreach(library name IN ZIP_LISTS tenon_libraries tenon_library_names)
  target_link_libraries(${tenon_object} PRIVATE $<BUILD_INTERFACE:${library}> $<INSTALL_INTERFACE:${name}>)
endforeach()

if(NOT BUILD_SHARED_LIBS)
  target_compile_definitions(${tenon_object} PRIVATE TENON_STATIC)  # nothing to open: the kernels are linked in
endif()

foreach(source IN LISTS tenon_sources tenon_cuda_sources)
  if(source MATCHES "/streams/")
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS TENON_CUDA_ARCH_LIST="${tenon_cuda_arch_list}")
  elseif(source MATCHES "/kernels/cpu/")
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release,RelWithDebInfo>:-O3>)
  endif()
endforeach()

if(tenon_with_cuda AND tenon_cuda_sources)
  tenon_library(tenon_cuda ${tenon_cuda_sources})
  target_compile_options(${tenon_cuda_object} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:${tenon_nvcc_options};--compress-mode=size>")
  # The run-time library is linked in and hidden: the driver is all that must be present. cuBLAS and cuDNN are opened
  # on first use.
  target_link_libraries(${tenon_cuda_object} PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
  target_include_directories(${tenon_cuda_object} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_include_directories(${tenon_cuda_object} PUBLIC $<BUILD_INTERFACE:${tenon_include}>)
  if(BUILD_SHARED_LIBS)
    target_link_libraries(tenon_cuda PUBLIC tenon)
    target_link_options(tenon_cuda PRIVATE -Wl,--exclude-libs,ALL)
    add_dependencies(tenon_cuda tenon)
  else()
    target_link_libraries(tenon INTERFACE tenon_cuda)
  endif()
endif()
