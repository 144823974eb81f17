# LibTorch from the PyPI wheel. Only libtorch_cpu and libc10 are linked, so that a CPU build never asks for
# CUDA; libtorch_cpu itself loads libcudart and libcupti, from a CUDA 13 toolkit or from two small wheels.
file(GLOB torch_roots ${TAPER_TORCH}/lib/python3*/site-packages/torch)
list(LENGTH torch_roots found)
if(found EQUAL 0)
  message(FATAL_ERROR "no torch wheel under ${TAPER_TORCH}; run `make bootstrap`, "
                      "or configure with -DTAPER_TRAIN=OFF for everything but training")
endif()
list(GET torch_roots 0 TORCH_ROOT)

file(GLOB cuda_runtime_folders
  ${TORCH_ROOT}/../nvidia/cu13/lib
  /usr/local/cuda*/lib64 /usr/local/cuda*/lib /usr/local/cuda*/extras/CUPTI/lib64)
set(torch_rpaths ${TORCH_ROOT}/lib)
foreach(library libcudart.so.13 libcupti.so.13)
  find_file(TAPER_${library} NAMES ${library} PATHS ${cuda_runtime_folders} NO_DEFAULT_PATH)
  if(NOT TAPER_${library})
    message(FATAL_ERROR "torch needs ${library}, which neither ${TAPER_TORCH} nor a CUDA 13 toolkit in "
                        "/usr/local has; run `make bootstrap`")
  endif()
  mark_as_advanced(TAPER_${library})
  get_filename_component(folder ${TAPER_${library}} DIRECTORY)
  list(APPEND torch_rpaths ${folder})
endforeach()
list(REMOVE_DUPLICATES torch_rpaths)

# The wheel's headers bring an fmt of their own; ours, the one that is linked, must be found first.
find_path(TAPER_FMT_INCLUDE fmt/format.h REQUIRED)
mark_as_advanced(TAPER_FMT_INCLUDE)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/before_torch)
file(CREATE_LINK ${TAPER_FMT_INCLUDE}/fmt ${CMAKE_BINARY_DIR}/before_torch/fmt SYMBOLIC)

add_library(taper_torch INTERFACE)
target_include_directories(taper_torch BEFORE INTERFACE ${CMAKE_BINARY_DIR}/before_torch)
target_include_directories(taper_torch SYSTEM INTERFACE
  ${TORCH_ROOT}/include ${TORCH_ROOT}/include/torch/csrc/api/include)
target_compile_options(taper_torch INTERFACE -fopenmp)
target_link_libraries(taper_torch INTERFACE
  ${TORCH_ROOT}/lib/libtorch_cpu.so ${TORCH_ROOT}/lib/libc10.so ${TORCH_ROOT}/lib/libgomp.so.1)
foreach(folder IN LISTS torch_rpaths)
  target_link_options(taper_torch INTERFACE -Wl,-rpath,${folder} -Wl,-rpath-link,${folder})
endforeach()
