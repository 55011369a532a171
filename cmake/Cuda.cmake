# Cuda.cmake - softgpu/cmake/Cuda.cmake, which also looks in build/cuda, where setup.sh unpacks the toolkit's wheels. `cmake -P cmake/Cuda.cmake`
# prints what it found, for setup.sh and other scripts; the build has the same in Toolbox.cmake.
get_filename_component(CUDA_WHEELS ${CMAKE_CURRENT_LIST_DIR}/../build/cuda/nvidia ABSOLUTE)
include(${CMAKE_CURRENT_LIST_DIR}/../softgpu/cmake/Cuda.cmake)
