// Ops that tell the amax of what they write, so that float8 needs no pass for it: it has the bits
// of float8_amax of the written tensor.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "support/expect_error.h"
#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/float8.h"
#include "wmtp/kernels/rms_norm.h"
#include "wmtp/kernels/rope.h"
#include "wmtp/kernels/swiglu.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels::testing {
namespace {

constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kEndless = std::numeric_limits<float>::infinity();

// Where and as what an op runs, and the number that one element of its input is.
struct Place {
  at::TensorOptions options;
  std::function<void(const Tensor&)> spoil = [](const Tensor&) {};

  Tensor input(const std::string& name, std::vector<std::int64_t> sizes) const {
    return copied(normals(name, std::move(sizes)).to(options));
  }
  Tensor spoiled(const std::string& name, std::vector<std::int64_t> sizes) const {
    const Tensor result = input(name, std::move(sizes));
    if (result.numel() > 0) spoil(result);
    return result;
  }
  Tensor statistics(std::vector<std::int64_t> sizes) const {
    return fresh(sizes, options.dtype(kFloat32));
  }
};

// Runs an op with an amax; returns what the amax is of.
using Producer = std::function<Tensor(const Place& place, const Tensor& amax)>;

struct NamedProducer {
  std::string name;
  Producer run;
};

Tensor produce_norm(const Place& place, std::int64_t rows, std::int64_t columns, bool adds,
                    const Tensor& amax) {
  const Tensor x = place.spoiled("x", {rows, columns}), out = fresh_like(x);
  RmsNorm args{x, {}, place.input("weight", {columns}), 1e-5, {}, out, place.statistics({rows})};
  if (adds) args.delta_ND = place.input("delta", {rows, columns}), args.sum_ND = fresh_like(x);
  args.amax = amax;
  rms_norm(args);
  return out;
}

Tensor produce_swiglu(const Place& place, std::int64_t rows, std::int64_t columns,
                      const Tensor& amax) {
  const Tensor out = fresh({rows, columns}, place.options);
  swiglu(place.spoiled("gate_up", {rows, 2 * columns}), out, amax);
  return out;
}

Tensor produce_swiglu_backward(const Place& place, std::int64_t rows, std::int64_t columns,
                               bool again, const Tensor& amax) {
  const Tensor dout = place.spoiled("dout", {rows, columns});
  // What is computed again is larger than the gradient, and not what the amax is of.
  const Tensor gate_up = copied(place.input("gate_up", {rows, 2 * columns}) * 8);
  swiglu_backward({dout, gate_up, again ? fresh_like(dout) : Tensor(), amax});
  return gate_up;
}

// `part` of q, k and v has the largest number, or the one that is no number.
Tensor produce_rope_backward(const Place& place, std::int64_t tokens, const HeadShape& heads,
                             bool norm, int part, const Tensor& amax) {
  const std::int64_t size = heads.head_dim, num_q = heads.num_heads, num_kv = heads.num_kv_heads;
  RopeBackward args{};
  args.heads = heads;
  args.table = {place.statistics({tokens, size / 2}), place.statistics({tokens, size / 2})};
  args.table.cos_NF.fill_(0.6), args.table.sin_NF.fill_(0.8);
  const auto grad = [&](const char* name, std::int64_t count, int which) {
    return which == part ? place.spoiled(name, {tokens, count, size}).mul_(100)
                         : place.input(name, {tokens, count, size});
  };
  args.dq_NHE = grad("dq", num_q, 0), args.dk_NGE = grad("dk", num_kv, 1);
  args.dv_NGE = grad("dv", num_kv, 2);
  args.dqkv_NC = fresh({tokens, (num_q + 2 * num_kv) * size}, place.options);
  if (norm) {
    args.qkv_NC = place.input("qkv", {tokens, (num_q + 2 * num_kv) * size});
    args.qk_rstd = place.statistics({tokens, num_q + num_kv}).fill_(1.5);
    args.q_weight_E = place.input("q_weight", {size});
    args.k_weight_E = place.input("k_weight", {size});
    args.dq_weight_E = at::zeros({size}, place.options.dtype(kFloat32));
  }
  args.amax = amax;
  rope_backward(args);
  return args.dqkv_NC;
}

// At one element, a pack, more than a warp and a block, and more than registers hold.
std::vector<NamedProducer> producers(std::int64_t rows) {
  std::vector<NamedProducer> all;
  const auto add = [&](const std::string& name, std::int64_t extent, Producer run) {
    all.push_back({name + " " + std::to_string(rows) + " x " + std::to_string(extent), run});
  };
  for (const std::int64_t columns : {1, 7, 8, 129, 1000, 2056, 4104, 8209, 16392}) {
    for (const bool adds : {false, true})
      add("rms_norm", columns, [=](const Place& place, const Tensor& amax) {
        return produce_norm(place, rows, columns, adds, amax);
      });
    if (columns > 2056) continue;
    add("swiglu", columns, [=](const Place& place, const Tensor& amax) {
      return produce_swiglu(place, rows, columns, amax);
    });
    for (const bool again : {false, true})
      add("swiglu_backward", columns, [=](const Place& place, const Tensor& amax) {
        return produce_swiglu_backward(place, rows, columns, again, amax);
      });
  }
  for (const int head_dim : {2, 6, 16, 48, 64, 128, 512})
    for (const bool norm : {false, true})
      for (const int part : {0, 1, 2})
        add(norm ? "rope_norm_backward" : "rope_backward", head_dim,
            [=](const Place& place, const Tensor& amax) {
              return produce_rope_backward(place, rows, {3, 2, head_dim}, norm, part, amax);
            });
  return all;
}

std::int32_t bits_of(const Tensor& one) {
  return one.cpu().view(kInt32).item<std::int32_t>();
}

void expect_amax(const NamedProducer& op, const Place& place) {
  const Tensor amax = at::zeros({1}, place.options.dtype(kFloat32));
  const Tensor written = op.run(place, amax);
  EXPECT_EQ(bits_of(amax), bits_of(float8_amax(written, Float8Recipe::tensorwise).of_rows))
      << op.name << " " << name_of(place.options.dtype().toScalarType());
}

// What stands in the last element, or in all.
void expect_amax_of_all_kinds(const at::TensorOptions& options) {
  for (const NamedProducer& op : producers(3)) {
    expect_amax(op, {options});
    for (const float odd : {kNoNumber, kEndless, -kEndless}) {
      SCOPED_TRACE(odd);
      expect_amax(op, {options, [=](const Tensor& x) { x.view(-1)[x.numel() - 1].fill_(odd); }});
    }
    expect_amax(op, {options, [](const Tensor& x) { x.zero_(); }});
  }
}

void expect_amax_raises(const at::TensorOptions& options) {
  for (const NamedProducer& op : producers(2)) {
    for (const float before : {1e30f, kEndless, kNoNumber, 1e-30f}) {
      const Tensor amax = at::full({1}, before, options.dtype(kFloat32));
      const std::int32_t old = bits_of(amax);
      const Tensor written = op.run({options}, amax);
      const std::int32_t own = bits_of(float8_amax(written, Float8Recipe::tensorwise).of_rows);
      EXPECT_EQ(bits_of(amax), std::max(old, own)) << op.name << " " << before;
    }
  }
  // No rows raise nothing.
  for (const NamedProducer& op : producers(0)) expect_amax(op, {options});
}

TEST(ProducedAmax, IsThatOfWhatIsWritten) {
  const OneThread one_thread;
  expect_amax_of_all_kinds(at::TensorOptions(kFloat32));
}

TEST(ProducedAmax, OfFp64IsFp32) {
  const Tensor amax = at::zeros({1}), gate_up = normals("gate_up", {3, 14});
  const Tensor out = fresh({3, 7}, gate_up.options());
  swiglu(gate_up, out, amax);
  EXPECT_EQ(bits_of(amax), bits_of(float8_amax(out, Float8Recipe::tensorwise).of_rows));
}

TEST(ProducedAmax, IsOnlyRaised) {
  const OneThread one_thread;
  expect_amax_raises(at::TensorOptions(kFloat32));
}

TEST(ProducedAmax, MustBeOneNumberOfFp32) {
  const Place place{at::TensorOptions(kFloat32)};
  for (const NamedProducer& op : producers(2)) {
    EXPECT_WMTP_ERROR(op.run(place, at::zeros({2})), ErrorKind::internal, "amax has shape [2]");
    EXPECT_WMTP_ERROR(op.run(place, at::zeros({1}, kFloat64)), ErrorKind::internal,
                      "amax is fp64, not fp32");
  }
}

TEST(ProducedAmaxOnGpu, IsThatOfWhatIsWritten) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16})
    expect_amax_of_all_kinds(at::TensorOptions(c10::Device(c10::kCUDA, 0)).dtype(dtype));
}

TEST(ProducedAmaxOnGpu, IsThatOfWhatIsWrittenOffTheBoundary) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  const OffBoundary off_boundary;
  for (const DType dtype : {kFloat32, kBFloat16})
    for (const NamedProducer& op : producers(2))
      expect_amax(op, {at::TensorOptions(c10::Device(c10::kCUDA, 0)).dtype(dtype)});
}

TEST(ProducedAmaxOnGpu, IsOnlyRaised) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  expect_amax_raises(at::TensorOptions(c10::Device(c10::kCUDA, 0)).dtype(kBFloat16));
}

}  // namespace
}  // namespace wmtp::kernels::testing
