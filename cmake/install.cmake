# SPDX-License-Identifier: Apache-2.0
# Installation and find_package(tenon): relocatable, and no language besides C++ is asked of the consumer. Headers go
# in as file sets whose base is the links of include_tree.cmake; what arrives are regular files.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tenon)

target_sources(${tenon_object} PUBLIC
  FILE_SET HEADERS BASE_DIRS ${tenon_include} FILES ${tenon_headers}
  FILE_SET kernels TYPE HEADERS BASE_DIRS ${tenon_include} FILES ${tenon_kernel_headers}
  FILE_SET testing TYPE HEADERS BASE_DIRS ${tenon_include} FILES ${tenon_testing_headers})
set_target_properties(${tenon_object} PROPERTIES INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)

set(targets tenon ${tenon_object})
if(TARGET tenon_cuda)
  list(APPEND targets tenon_cuda ${tenon_cuda_object})
endif()
list(REMOVE_DUPLICATES targets)
install(TARGETS ${targets} EXPORT tenon
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILE_SET kernels DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILE_SET testing DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tenon NAMESPACE tenon:: DESTINATION ${package_dir} FILE tenonTargets.cmake)

# tenon::testing: Catch2 has two incompatible majors, so the sources are installed and compiled by who uses them.
set(tenon_testing_dir ${CMAKE_INSTALL_DATADIR}/tenon/testing)
install(FILES ${tenon_testing_sources} DESTINATION ${tenon_testing_dir})
set(tenon_testing_names)
foreach(source IN LISTS tenon_testing_sources)
  cmake_path(GET source FILENAME file)
  list(APPEND tenon_testing_names ${file})
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tenonConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tenonConfig.cmake INSTALL_DESTINATION ${package_dir}
  PATH_VARS tenon_testing_dir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tenonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tenonConfig.cmake ${PROJECT_BINARY_DIR}/tenonConfigVersion.cmake
        DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tenon OPTIONAL)
