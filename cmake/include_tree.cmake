# SPDX-License-Identifier: Apache-2.0
# Makes <tenon/folder/header.h> resolve in the build tree: one link per public folder, never the root, which
# would contain the build folder. This is the only list of public folders. Headers installed are those found
# through the links.
set(TENON_PUBLIC_FOLDERS core streams memory dispatch ops kernels autograd nn optim data amp jit profiler distributed)
set(tenon_include ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${tenon_include}/tenon)
foreach(folder IN LISTS TENON_PUBLIC_FOLDERS)
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${tenon_include}/tenon/${folder} SYMBOLIC)
  endif()
endforeach()
# The test support is public too: users check their own operators with it.
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/tests/support ${tenon_include}/tenon/testing SYMBOLIC)
if(EXISTS ${PROJECT_SOURCE_DIR}/cmake/tenon.h)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/cmake/tenon.h ${tenon_include}/tenon/tenon.h SYMBOLIC)
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${tenon_include}/tenon/version.h @ONLY)

set(folders ${TENON_PUBLIC_FOLDERS})
list(REMOVE_ITEM folders kernels)
list(TRANSFORM folders REPLACE "(.+)" "${tenon_include}/tenon/\\1/*.h" OUTPUT_VARIABLE patterns)
file(GLOB tenon_headers CONFIGURE_DEPENDS ${patterns} ${tenon_include}/tenon/*.h)
# The loop and launch headers, for operators written outside this repository.
file(GLOB tenon_kernel_headers CONFIGURE_DEPENDS ${tenon_include}/tenon/kernels/*.h
     ${tenon_include}/tenon/kernels/*/*.h ${tenon_include}/tenon/kernels/*/*.cuh)
file(GLOB tenon_testing_headers CONFIGURE_DEPENDS ${tenon_include}/tenon/testing/*.h)
file(GLOB tenon_testing_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.cpp)
