# LibTorch from the PyPI wheel: libtorch_cpu and libc10 only, so that a CPU build never asks for CUDA.
file(GLOB torch_roots ${TAPER_TORCH}/lib/python3*/site-packages/torch)
list(LENGTH torch_roots found)
if(found EQUAL 0)
  message(FATAL_ERROR "no torch wheel under ${TAPER_TORCH}; run `make bootstrap`, "
                      "or configure with -DTAPER_TRAIN=OFF for everything but training")
endif()
list(GET torch_roots 0 TORCH_ROOT)

# The wheel's libtorch_cpu needs libcudart and libcupti beside it, from the toolkit or two small wheels.
file(GLOB cuda_runtime_dirs ${TAPER_TORCH}/lib/python3*/site-packages/nvidia/*/lib)
foreach(dir /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64)
  if(EXISTS ${dir})
    list(APPEND cuda_runtime_dirs ${dir})
  endif()
endforeach()

add_library(taper_torch INTERFACE)
target_include_directories(taper_torch SYSTEM INTERFACE
  ${TORCH_ROOT}/include ${TORCH_ROOT}/include/torch/csrc/api/include)
target_compile_options(taper_torch INTERFACE -fopenmp)
target_link_libraries(taper_torch INTERFACE
  ${TORCH_ROOT}/lib/libtorch_cpu.so ${TORCH_ROOT}/lib/libc10.so ${TORCH_ROOT}/lib/libgomp.so.1)
set(rpaths ${TORCH_ROOT}/lib ${cuda_runtime_dirs})
foreach(dir ${rpaths})
  target_link_options(taper_torch INTERFACE -Wl,-rpath,${dir} -Wl,-rpath-link,${dir})
endforeach()
