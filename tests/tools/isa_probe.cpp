// wmtp_isa_probe: which instruction sets this process computes with, and hashes of what comes out,
// as one JSON line; tools/isa_matrix tells by it whether a variable has changed anything.
//   {"aten": "AVX2", "own": "avx2", "own_widest": "avx2", "gemm": .., "softmax": .., "kernels": ..}
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/softmax.h>

#include <iostream>

#include "support/simd_limit.h"
#include "wmtp/core/checksum.h"
#include "wmtp/core/json.h"
#include "wmtp/core/rng.h"
#include "wmtp/kernels/rms_norm.h"
#include "wmtp/kernels/swiglu.h"

namespace {

using namespace wmtp;

Tensor normals(const char* name, std::int64_t rows, std::int64_t columns) {
  const Tensor values = at::empty({rows, columns}, at::kFloat);
  RngStream stream(1, name);
  float* const out = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i)
    out[i] = static_cast<float>(four_normals(stream.next())[0]);
  return values;
}

void add(Sha256& hash, const Tensor& values) {
  hash.update({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
}

std::string short_hex(Sha256& hash) {
  return to_hex(hash.finish()).substr(0, 12);
}

// Shapes below, at and across the blocks of a matrix product; with a narrow result too.
std::string hash_of_gemm() {
  constexpr std::int64_t kShapes[][3] = {{8, 8, 8}, {48, 128, 352}, {37, 129, 65}, {256, 512, 3}};
  Sha256 hash;
  for (const auto& [m, k, n] : kShapes) add(hash, at::mm(normals("a", m, k), normals("b", k, n)));
  return short_hex(hash);
}

std::string hash_of_softmax() {
  Sha256 hash;
  for (const std::int64_t columns : {7, 64, 513})
    add(hash, at::softmax(normals("scores", 33, columns), 1));
  return short_hex(hash);
}

std::string hash_of_own_kernels() {
  const Tensor x = normals("x", 48, 130), gate_up = normals("gate_up", 48, 260);
  const Tensor out = at::empty_like(x), rstd = at::empty({48}, at::kFloat);
  Sha256 hash;
  kernels::RmsNorm norm;
  norm.x_ND = x, norm.weight_D = normals("weight", 1, 130).view({130});
  norm.out_ND = out, norm.rstd_N = rstd;
  kernels::rms_norm(norm);
  add(hash, out);
  kernels::swiglu(gate_up, out);
  add(hash, out);
  return short_hex(hash);
}

}  // namespace

int main() {
  if (!test::limit_simd_by_environment()) return 1;
  at::set_num_threads(1);
  const OrderedJson report{{"aten", at::get_cpu_capability()},
                           {"own", kernels::simd_level_name(kernels::simd_level())},
                           {"own_widest", kernels::simd_level_name(kernels::widest_simd_level())},
                           {"gemm", hash_of_gemm()},
                           {"softmax", hash_of_softmax()},
                           {"kernels", hash_of_own_kernels()}};
  std::cout << report.dump() << "\n";
  return 0;
}
