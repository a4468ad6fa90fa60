# SPDX-License-Identifier: Apache-2.0
# Libraries from the distribution: Highway for SIMD, zlib for datasets; a CBLAS is the tests' oracle where there is one.
find_package(Threads REQUIRED)

find_path(TENON_HIGHWAY_INCLUDE hwy/highway.h)
find_library(TENON_HIGHWAY_LIBRARY hwy)
if(NOT TENON_HIGHWAY_INCLUDE OR NOT TENON_HIGHWAY_LIBRARY)
  message(FATAL_ERROR "Highway was not found: install libhwy-dev (tools/setup.sh installs everything)")
endif()

# Datasets come gzip-compressed.
find_path(TENON_ZLIB_INCLUDE zlib.h)
find_library(TENON_ZLIB_LIBRARY z)
if(NOT TENON_ZLIB_INCLUDE OR NOT TENON_ZLIB_LIBRARY)
  message(FATAL_ERROR "zlib was not found: install zlib1g-dev (tools/setup.sh installs everything)")
endif()

set(tenon_libraries ${TENON_HIGHWAY_LIBRARY} ${TENON_ZLIB_LIBRARY})
set(tenon_library_names hwy z)
set(tenon_dependency_includes ${TENON_HIGHWAY_INCLUDE} ${TENON_ZLIB_INCLUDE})

if(TENON_CBLAS)
  find_path(TENON_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas x86_64-linux-gnu/openblas-pthread)
  find_library(TENON_CBLAS_LIBRARY NAMES openblas cblas blas)
  if(TENON_CBLAS_INCLUDE AND TENON_CBLAS_LIBRARY)
    set(TENON_HAVE_CBLAS TRUE)
  endif()
endif()

foreach(part Highway:${TENON_HIGHWAY_LIBRARY} CBLAS:${TENON_CBLAS_LIBRARY})
  message(STATUS "tenon: ${part}")
endforeach()
