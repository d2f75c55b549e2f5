# Enables CUDA for the trainer's GPU code. RINGMASTER_CUDA is OFF, ON (fails if something is missing) or AUTO (on if a CUDA compiler and a
# LibTorch with CUDA are found). The build contains machine code for all GPUs that LibTorch's wheels support, so that nothing is compiled
# when a job starts, and PTX of the newest architecture for later GPUs.
set(RINGMASTER_CUDA OFF CACHE STRING
  "Build the trainer's GPU side (needs nvcc and a LibTorch with CUDA): ON, OFF or AUTO")
set_property(CACHE RINGMASTER_CUDA PROPERTY STRINGS ON OFF AUTO)
if(NOT RINGMASTER_CUDA)
  return()
endif()

set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100-real 120 CACHE STRING "GPUs that kernels are compiled for")
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # LibTorch contains the shared runtime library
if(RINGMASTER_CUDA STREQUAL AUTO)
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER OR NOT EXISTS ${RINGMASTER_LIBTORCH}/lib/libc10_cuda.so)
    set(RINGMASTER_CUDA OFF)
    return()
  endif()
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
