# What the GPU plugin runs on, said once: nvcc's flags (src/wmtp/cuda_plugin) and what `wmtp doctor` and `wmtp version` tell
# (src/wmtp/cli/doctor/gpu_targets.h.in) are made from these lists.
set(WMTP_GPU_MACHINE_CODE 80 90)  # sm_*: runs as it is on these and later minor versions (8.6, 8.9)
set(WMTP_GPU_PTX 90)              # compute_*: what the driver compiles at load time for newer GPUs
set(WMTP_GPU_CUDA 13.0)           # of torch's wheels and of nvcc, whose PTX no older driver reads
set(WMTP_GPU_DRIVER 580)          # the first branch of drivers for that CUDA

set(WMTP_NVCC_TARGETS "")
foreach(architecture ${WMTP_GPU_MACHINE_CODE})
  list(APPEND WMTP_NVCC_TARGETS -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(APPEND WMTP_NVCC_TARGETS -gencode arch=compute_${WMTP_GPU_PTX},code=compute_${WMTP_GPU_PTX})
