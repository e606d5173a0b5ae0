// Stands for CUDA's header of this name where kernels are compiled for the host: the words, types
// and functions that the project's kernels use. What is missing does not compile.
#pragma once
#include <math.h>

#include <cstddef>
#include <cstdint>

#include "emulated/atomics.h"
#include "emulated/intrinsics.h"
#include "emulated/launch.h"
#include "emulated/runtime_api.h"
#include "emulated/threads.h"
#include "emulated/vector_types.h"
#include "emulated/words.h"
