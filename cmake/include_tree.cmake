# Makes <tenon/folder/header.h> resolve in the build tree: one link per public folder, never the root.
set(TENON_PUBLIC_FOLDERS core streams memory dispatch ops kernels autograd nn optim data amp jit profiler distributed)
set(tenon_include ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${tenon_include}/tenon)
foreach(folder IN LISTS TENON_PUBLIC_FOLDERS)
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${tenon_include}/tenon/${folder} SYMBOLIC)
  endif()
endforeach()
