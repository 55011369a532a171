# Cuda12Kernels.cmake - device code that drivers for CUDA 12 load, made by the compiler of CUDA 13 and the assembler of CUDA 12. Run by
# the build: cmake -DNVCC= -DFATBINARY= -DPTXAS= -DARCHITECTURES="70 80" -DINCLUDE= -DSOURCE= -DWORK= -DOUTPUT= -P Cuda12Kernels.cmake
#
# nvcc 13 writes PTX for its own drivers, and none for Volta. Our kernels use nothing that is newer than Volta or than PTX 7.8, of CUDA
# 11.8: so the PTX's two lines that say otherwise are replaced. The assembler of CUDA 12.9 makes cubins of it, which refuses what it does
# not know. The PTX itself comes last, for GPUs without a cubin. Images are compressed as drivers of CUDA 12.4 on decompress them
# (550.54.14): by zstd.
cmake_minimum_required(VERSION 3.20)

# run(WHAT command...): stops the build with what the command has said.
function(run what)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(NOT code EQUAL 0)
        message(FATAL_ERROR "${what} fails (${code}): ${said}")
    endif()
endfunction()

# replace_line(ptx from to): the one line of ${ptx} that matches becomes another.
function(replace_line variable from to)
    string(REGEX MATCHALL "\n${from}\n" found "${${variable}}")
    list(LENGTH found count)
    if(NOT count EQUAL 1)
        message(FATAL_ERROR "the PTX of ${SOURCE} has ${count} lines like '${from}', not one: is this nvcc newer than ${NVCC}'s of CUDA 13.0?")
    endif()
    string(REGEX REPLACE "\n${from}\n" "\n${to}\n" replaced "${${variable}}")
    set(${variable} "${replaced}" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${WORK})
run("nvcc -ptx" ${NVCC} -ptx -arch=compute_75 -O3 -I${INCLUDE} ${SOURCE} -o ${WORK}/compute_75.ptx)
file(READ ${WORK}/compute_75.ptx ptx)
replace_line(ptx "\\.version 9\\.[0-9]+" ".version 7.8")
replace_line(ptx "\\.target sm_75" ".target sm_70")
file(WRITE ${WORK}/compute_70.ptx "${ptx}")

string(REPLACE " " ";" architectures "${ARCHITECTURES}")
set(images)
foreach(architecture IN LISTS architectures)
    set(cubin ${WORK}/sm_${architecture}.cubin)
    run("ptxas for sm_${architecture}" ${PTXAS} -arch=sm_${architecture} -O3 ${WORK}/compute_70.ptx -o ${cubin})
    list(APPEND images --image3=kind=elf,sm=${architecture},file=${cubin})
endforeach()
run("fatbinary" ${FATBINARY} --create=${OUTPUT} -64 --compress-all --compress-mode=size ${images}
    --image3=kind=ptx,sm=70,file=${WORK}/compute_70.ptx)
