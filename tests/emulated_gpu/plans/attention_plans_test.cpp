// Whether cuDNN itself takes the graphs of the GPU plugin's attention: it is asked for a GPU that
// is described to it (hopper.json) and not there, up to the step that would load a kernel.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <vector>

#include "wmtp/kernels/cuda/attention_graph.h"

namespace wmtp::kernels {
namespace {

namespace fe = cudnn_frontend;

std::shared_ptr<fe::DeviceProperties> hopper() {
  std::ifstream file("hopper.json");
  const std::vector<std::uint8_t> text{std::istreambuf_iterator<char>(file), {}};
  auto properties = std::make_shared<fe::DeviceProperties>();
  fe::error_t done = properties->deserialize(text);
  EXPECT_TRUE(done.is_good()) << done.get_message();
  return properties;
}

PackedAttentionShape shape_of(std::int64_t num_kv, std::int64_t head_dim) {
  const std::int64_t stride = (32 + 2 * num_kv) * head_dim;
  return {.element = Element::bf16,
          .backward = false,
          .deterministic = false,
          .documents = 16,
          .length = 2048,
          .tokens = 0,
          .num_q = 32,
          .num_kv = num_kv,
          .head_dim = head_dim,
          .q_stride = stride,
          .k_stride = stride,
          .v_stride = stride,
          .scale = 0.125f};
}

// Empty, or what cuDNN says against it.
std::string refusal(const PackedAttentionShape& shape, int capability = 90) {
  static const auto device = hopper();
  const auto graph = attention_graph(shape, capability);
  graph->set_device_properties(device);
  fe::error_t done = graph->validate();
  if (done.is_good()) done = graph->build_operation_graph();
  if (done.is_good()) done = graph->create_execution_plans({fe::HeurMode_t::A});
  if (done.is_good()) done = graph->check_support();
  return done.is_good() ? "" : "refused: " + done.get_message();
}

void expect_taken(PackedAttentionShape shape, std::int64_t tokens) {
  EXPECT_EQ(refusal(shape), "") << shape.documents << " " << shape.length << " " << shape.head_dim;
  shape.backward = true;
  shape.tokens = tokens;
  for (const bool deterministic : {false, true}) {
    shape.deterministic = deterministic;
    EXPECT_EQ(refusal(shape), "") << shape.documents << " " << shape.length << " " << shape.head_dim
                                  << " " << deterministic;
  }
}

TEST(AttentionPlans, CudnnTakesEveryHead) {
  for (const std::int64_t head_dim : {8, 16, 40, 64, 72, 128, 136, 256})
    for (const std::int64_t num_kv : {1, 8, 32}) expect_taken(shape_of(num_kv, head_dim), 8192);
}

TEST(AttentionPlans, CudnnTakesEveryBucket) {
  for (const auto& [documents, length, tokens] :
       std::vector<std::array<std::int64_t, 3>>{{1, 128, 1},
                                                {1, 128, 128},
                                                {64, 128, 1024},
                                                {8, 4096, 16384},
                                                {1, 32768, 32768},
                                                {65535, 128, 131072}})
    for (const Element element : {Element::bf16, Element::fp16}) {
      PackedAttentionShape shape = shape_of(8, 128);
      shape.element = element;
      shape.documents = documents, shape.length = length;
      expect_taken(shape, tokens);
    }
}

// The rules of packed/attention.h and run/plan/kernels/attention_choice are the library's.
TEST(AttentionPlans, WhatIsRefusedBeforeIsRefusedByCudnnToo) {
  EXPECT_NE(refusal(shape_of(8, 60)), "");
  PackedAttentionShape wide = shape_of(8, 264);
  wide.backward = true, wide.tokens = 8192;
  EXPECT_NE(refusal(wide), "");
  PackedAttentionShape odd = shape_of(8, 64);
  odd.q_stride += 4;
  EXPECT_NE(refusal(odd), "");
  PackedAttentionShape backward = shape_of(8, 64);
  backward.backward = true, backward.tokens = 8192;
  EXPECT_NE(refusal(backward, 80), "");
}

}  // namespace
}  // namespace wmtp::kernels
