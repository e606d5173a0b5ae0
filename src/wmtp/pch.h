// The precompiled header of the targets on LibTorch: narrow on purpose. Operator headers
// (ATen/ops/<op>.h) stay in the sources that call them.
#pragma once
#include <ATen/Context.h>
#include <ATen/DeviceGuard.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "wmtp/plain_pch.h"
