${NVCC:-nvcc} -O2 -g -std=c++17 main.cu model.cu -o train
