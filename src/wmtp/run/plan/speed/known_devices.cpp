#include "wmtp/run/plan/speed/known_devices.h"

#include <fmt/format.h>

namespace wmtp::run {
namespace {

constexpr double kGib = 0x1p30;

void set_passes(DeviceModel& device, std::initializer_list<std::pair<Pass, double>> rates) {
  for (const auto& [pass, bytes_per_s] : rates)
    device.passes[static_cast<std::size_t>(pass)] = bytes_per_s;
}

// Of a ring; rates in Gbit/s.
LinkModel link(double gbit_s, double reached, double hop_us) {
  return {.bytes_per_s = gbit_s * 1e9 / 8 * reached, .latency_s = hop_us * 1e-6, .start_s = 20e-6};
}

// Nobody has measured these two. Products in float8 are taken to reach the part of their peak that
// those in bf16 reach of theirs: then `tensorwise` gains 1.4 at 6.7B, as torchao's does on an H200
// (14.4k tokens/s against its own 10.2k). AdamW with moments in 8 bits draws as many random numbers
// as with bf16 ones and moves fewer bytes, at the same rate.
RateCurve in_float8(const DeviceModel& device) {
  return device.products.scaled(device.peak_float8_flops / device.peak_flops);
}
constexpr double kAdamWRoundedRate = 3.16e12, kAdamW8BitRate = kAdamWRoundedRate;

// Kernels as benchmarks/gpu.md has them, products and attention as they run inside of steps.
DeviceModel h200() {
  DeviceModel device;
  device.name = "h200";
  device.title = "NVIDIA H200";
  device.memory_bytes = 139.8 * kGib;
  device.peak_flops = 989e12;
  device.peak_float8_flops = 1979e12;
  device.memory_bytes_per_s = 4.8e12;
  device.major = 9;
  device.products = {{128, 300e12}, {1024, 740e12}, {4096, 795e12}};
  device.float8_products = in_float8(device);
  device.full_products = {{512, 40e12}, {4096, 52e12}};
  device.attention_forward = {{256, 250e12}, {2048, 470e12}, {8192, 560e12}};
  device.attention_backward = {{256, 170e12}, {2048, 325e12}, {8192, 390e12}};
  set_passes(device, {{Pass::norm, 4.06e12},
                      {Pass::norm_backward, 2.35e12},
                      {Pass::rope, 3.85e12},
                      {Pass::rope_backward, 3.29e12},
                      {Pass::qk_rope, 3.21e12},
                      {Pass::qk_rope_backward, 2.30e12},
                      {Pass::swiglu, 4.24e12},
                      {Pass::swiglu_backward, 4.16e12},
                      {Pass::cross_entropy, 3.18e12},
                      {Pass::copy, 4.3e12},
                      {Pass::grad_norm, 4.47e12},
                      {Pass::adamw, 4.25e12},
                      {Pass::adamw_rounded, kAdamWRoundedRate},
                      {Pass::adamw_8bit, kAdamW8BitRate}});
  device.call_s = 2e-6;
  device.host_call_s = 24e-6;
  device.busy = 0.88;
  device.offload_s_per_parameter = 4.5e-10;
  device.in_node = link(3600, 0.80, 2);        // NVLink 4
  device.between_nodes = link(3200, 0.90, 5);  // InfiniBand NDR 400, eight cards
  device.measured = true;
  device.basis = "benchmarks/gpu.md, one H200";
  return device;
}

struct Published {
  std::string_view name, title;
  int major, minor;                                      // compute capability
  double gib, tflops, full_tflops, float8_tflops, tb_s;  // bf16, fp32 and float8, dense
  LinkModel in_node, between_nodes;
  int devices_per_node = 8;
};

// Vendors' data sheets. Peaks in float8 are of those that training.float8 takes (compute capability
// 9.0 and newer: run/plan/kernels/float8_choice.cpp). L40S and RTX 4090 have no NVLink; a ring over
// PCIe 4 x16 moves some 70 % of its rate, and less between cards that cannot read each other's
// memory.
std::vector<Published> published() {
  return {
      {"h100", "NVIDIA H100 SXM", 9, 0, 79.6, 989, 67, 1979, 3.35, link(3600, .80, 2),
       link(3200, .90, 5)},
      {"a100-80", "NVIDIA A100 80GB", 8, 0, 79.3, 312, 19.5, 0, 2.04, link(2400, .80, 2),
       link(1600, .90, 5)},
      {"a100-40", "NVIDIA A100 40GB", 8, 0, 39.5, 312, 19.5, 0, 1.56, link(2400, .80, 2),
       link(1600, .90, 5)},
      {"b200", "NVIDIA B200", 10, 0, 178, 2250, 75, 4500, 8.0, link(7200, .80, 2),
       link(3200, .90, 5)},
      {"l40s", "NVIDIA L40S", 8, 9, 44.4, 362, 91.6, 0, 0.864, link(256, .70, 5),
       link(400, .90, 5)},
      {"rtx4090", "NVIDIA GeForce RTX 4090", 8, 9, 23.5, 165, 82.6, 0, 1.008, link(256, .45, 10),
       link(25, .90, 40)},
  };
}

// Rates of bf16 compute scale with its peak, passes with the memory's.
DeviceModel estimated(const Published& row, const DeviceModel& like) {
  DeviceModel device = like;
  device.name = row.name;
  device.title = row.title;
  device.memory_bytes = row.gib * kGib;
  device.peak_flops = row.tflops * 1e12;
  device.peak_float8_flops = row.float8_tflops * 1e12;
  device.memory_bytes_per_s = row.tb_s * 1e12;
  device.major = row.major, device.minor = row.minor;
  const double compute = device.peak_flops / like.peak_flops;
  const double memory = device.memory_bytes_per_s / like.memory_bytes_per_s;
  device.products = like.products.scaled(compute);
  device.full_products = like.full_products.scaled(row.full_tflops / 67);
  if (device.peak_float8_flops > 0) device.float8_products = in_float8(device);
  device.attention_forward = like.attention_forward.scaled(compute);
  device.attention_backward = like.attention_backward.scaled(compute);
  for (RateCurve& pass : device.passes) pass = pass.scaled(memory);
  device.in_node = row.in_node;
  device.between_nodes = row.between_nodes;
  device.devices_per_node = row.devices_per_node;
  device.measured = false;
  const double reached = like.products.points().back().per_s / like.peak_flops;
  device.basis = fmt::format(
      "published peaks {:.0f} TFLOP/s bf16 and {:.3g} TB/s; products at {:.0f} %, passes at {:.0f} "
      "% of them, as an H200",
      row.tflops, row.tb_s, 100 * reached,
      100 * like.pass(Pass::copy).at(1) / like.memory_bytes_per_s);
  return device;
}

// One core with AVX-512 (benchmarks/kernels.md).
DeviceModel cpu() {
  DeviceModel device;
  device.name = "cpu";
  device.title = "CPU";
  device.peak_flops = 95e9;
  device.memory_bytes_per_s = 42e9;
  device.products = device.full_products = {{8, 20e9}, {128, 70e9}, {512, 93e9}};
  device.attention_forward = 33e9;
  device.attention_backward = 28e9;
  set_passes(device, {{Pass::norm, 66e9},
                      {Pass::norm_backward, 59e9},
                      {Pass::rope, 74e9},
                      {Pass::rope_backward, 69e9},
                      {Pass::qk_rope, 8.5e9},
                      {Pass::qk_rope_backward, 12e9},
                      {Pass::swiglu, 21e9},
                      {Pass::swiglu_backward, 26e9},
                      {Pass::cross_entropy, 14e9},
                      {Pass::copy, 20e9},
                      {Pass::grad_norm, 23e9},
                      {Pass::adamw, 42e9},
                      {Pass::adamw_rounded, 13e9},
                      {Pass::adamw_8bit, 4e9}});
  device.call_s = 2e-6;
  device.in_node = {.bytes_per_s = 1e9, .latency_s = 20e-6, .start_s = 120e-6};
  device.between_nodes = {.bytes_per_s = 1.1e9, .latency_s = 50e-6, .start_s = 120e-6};
  device.devices_per_node = 1;
  device.basis = "one core of benchmarks/kernels.md, not this machine";
  return device;
}

}  // namespace

const std::vector<DeviceModel>& known_devices() {
  static const std::vector<DeviceModel> devices = [] {
    std::vector<DeviceModel> all{cpu(), h200()};
    for (const Published& row : published()) all.push_back(estimated(row, all[1]));
    return all;
  }();
  return devices;
}

}  // namespace wmtp::run
