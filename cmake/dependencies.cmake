# SPDX-License-Identifier: Apache-2.0
# Libraries from the distribution. Highway and spdlog are required; oneDNN and CBLAS make products faster and are
# optional. Plain find_library where a package file asks for more than we use (Debian's dnnl wants OpenCL).
find_package(Threads REQUIRED)

find_path(TENON_HIGHWAY_INCLUDE hwy/highway.h)
find_library(TENON_HIGHWAY_LIBRARY hwy)
if(NOT TENON_HIGHWAY_INCLUDE OR NOT TENON_HIGHWAY_LIBRARY)
  message(FATAL_ERROR "Highway was not found: install libhwy-dev (tools/setup.sh installs everything)")
endif()

# Used header-only, in core/log.cpp alone, so that no particular spdlog or fmt library is needed at run time.
find_path(TENON_SPDLOG_INCLUDE spdlog/spdlog.h)
if(NOT TENON_SPDLOG_INCLUDE)
  message(FATAL_ERROR "spdlog was not found: install libspdlog-dev (tools/setup.sh installs everything)")
endif()

# Datasets come gzip-compressed.
find_path(TENON_ZLIB_INCLUDE zlib.h)
find_library(TENON_ZLIB_LIBRARY z)
if(NOT TENON_ZLIB_INCLUDE OR NOT TENON_ZLIB_LIBRARY)
  message(FATAL_ERROR "zlib was not found: install zlib1g-dev (tools/setup.sh installs everything)")
endif()

set(tenon_libraries ${TENON_HIGHWAY_LIBRARY} ${TENON_ZLIB_LIBRARY})
set(tenon_library_names hwy z)
set(tenon_definitions SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
set(tenon_dependency_includes ${TENON_HIGHWAY_INCLUDE} ${TENON_SPDLOG_INCLUDE})

if(TENON_ONEDNN)
  find_path(TENON_ONEDNN_INCLUDE dnnl.hpp)
  find_library(TENON_ONEDNN_LIBRARY dnnl)
  if(TENON_ONEDNN_INCLUDE AND TENON_ONEDNN_LIBRARY)
    list(APPEND tenon_libraries ${TENON_ONEDNN_LIBRARY})
    list(APPEND tenon_library_names dnnl)
    list(APPEND tenon_definitions TENON_WITH_ONEDNN)
    list(APPEND tenon_dependency_includes ${TENON_ONEDNN_INCLUDE})
  endif()
endif()

if(TENON_CBLAS)
  find_path(TENON_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas x86_64-linux-gnu/openblas-pthread)
  find_library(TENON_CBLAS_LIBRARY NAMES openblas cblas blas)
  if(TENON_CBLAS_INCLUDE AND TENON_CBLAS_LIBRARY)
    set(TENON_HAVE_CBLAS TRUE)
  endif()
endif()

foreach(part Highway:${TENON_HIGHWAY_LIBRARY} oneDNN:${TENON_ONEDNN_LIBRARY} CBLAS:${TENON_CBLAS_LIBRARY})
  message(STATUS "tenon: ${part}")
endforeach()
