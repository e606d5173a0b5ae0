// fp32 numbers in two planes of 16 bits: the upper one holds the nearest bf16 numbers, which can be
// computed with where they lie, the lower one what is missing.
//   upper = (bits + 8000) >> 16   nearest, ties away from zero
//   lower = int16(bits & ffff)    bits = (upper << 16) + lower, wrapping
// Exact for every finite number. One that is not finite has its upper half (of a NaN a quiet one)
// and lower 0. To nearest even the planes could not be joined: 3f818000 and 3f828000 would both be
// 3f82 and 8000. So wherever trained weights are computed with in bf16 they are rounded like this,
// however they are kept, or the two ways of keeping them would train apart.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

struct Planes {
  Tensor upper;  // bf16
  Tensor lower;  // int16
};

// Flat, contiguous, of one size and on one device. STREAM.
void split_planes(const Tensor& whole, const Planes& planes);  // from fp32
void join_planes(const Planes& planes, const Tensor& whole);   // to fp32

// Trained weights into a tensor of the dtype they are computed with: the upper plane where that is
// bf16 and they are fp32, else as copy_ converts. REQUIRES contiguous tensors. From the host to a
// GPU it is rounded on the host, which BLOCKS; otherwise STREAM.
void round_to_compute(const Tensor& master, const Tensor& out);

}  // namespace wmtp::kernels
