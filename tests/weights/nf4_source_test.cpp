#include "wmtp/weights/bitsandbytes/nf4_source.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "tools/write_tensors.h"
#include "wmtp/core/json.h"
#include "wmtp/kernels/codes/dynamic_map.h"
#include "wmtp/weights/bitsandbytes/quant_state.h"

namespace wmtp::weights {
namespace {

using test::TempDir;
using Tensors = std::map<std::string, Tensor>;

constexpr const char* kName = "a.weight";
constexpr std::int64_t kRows = 150, kColumns = 128;  // 300 blocks: two groups, one of them short

Tensor text_tensor(const std::string& text) {
  Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, c10::ScalarType::Byte);
  std::copy(text.begin(), text.end(), static_cast<char*>(bytes.data_ptr()));
  return bytes;
}

Tensor table(std::span<const float> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return at::from_blob(const_cast<float*>(values.data()), {size}, kFloat32).clone();
}

// What bitsandbytes writes of one weight.
struct Stored {
  Tensors tensors;
  Json state;
  Tensor packed;
  kernels::Nf4Scales scales;

  std::string of(const char* part) const { return std::string(kName) + part; }
  void put_state() { tensors[of(".quant_state.bitsandbytes__nf4")] = text_tensor(state.dump()); }
};

Stored stored_weight(bool nested, const std::string& dtype = "bfloat16") {
  Stored stored;
  const std::int64_t count = kRows * kColumns;
  const Tensor values = at::randn({count});
  stored.packed = at::empty({kernels::nf4_bytes(count)}, c10::ScalarType::Byte);
  const Tensor absmax = at::empty({kernels::nf4_blocks(count)}, kFloat32);
  EXPECT_EQ(kernels::nf4_quantize(values, stored.packed, absmax), -1);
  if (nested)
    stored.scales = kernels::nf4_quantize_scales(absmax);
  else
    stored.scales.codes = absmax;
  stored.state = {
      {"quant_type", "nf4"}, {"blocksize", 64}, {"dtype", dtype}, {"shape", {kRows, kColumns}}};
  stored.tensors = {{kName, stored.packed.view({-1, 1})},
                    {stored.of(".absmax"), stored.scales.codes},
                    {stored.of(".quant_map"), table(kernels::nf4_table())},
                    {"b.weight", at::randn({3, 2})}};
  if (nested) {
    stored.tensors[stored.of(".nested_absmax")] = stored.scales.group_max;
    stored.tensors[stored.of(".nested_quant_map")] = table(kernels::signed_dynamic_map());
    stored.state.update({{"nested_blocksize", 256},
                         {"nested_dtype", "float32"},
                         {"nested_offset", stored.scales.offset}});
  }
  stored.put_state();
  return stored;
}

std::unique_ptr<WeightSource> decoded(const TempDir& folder, const Stored& stored) {
  const auto path = folder / "model.safetensors";
  test::write_tensors(path, {stored.tensors.begin(), stored.tensors.end()});
  return decode_bitsandbytes(std::make_unique<SafetensorsSource>(SafetensorsFile::open(path)));
}

TEST(Nf4Source, IsTheSourceItselfWhereNothingIsStoredSo) {
  const TempDir folder;
  test::write_tensors(folder / "a", {{"a.weight", at::randn({4, 2})}});
  auto plain = std::make_unique<SafetensorsSource>(SafetensorsFile::open(folder / "a"));
  const WeightSource* before = plain.get();
  EXPECT_EQ(decode_bitsandbytes(std::move(plain)).get(), before);
}

TEST(Nf4Source, GivesTheWeightInItsShapeAndRoundedToItsDtype) {
  for (const bool nested : {true, false})
    for (const auto& [name, dtype] :
         {std::pair{"bfloat16", kBFloat16}, {"float16", kFloat16}, {"float32", kFloat32}}) {
      const TempDir folder;
      const Stored stored = stored_weight(nested, name);
      const auto source = decoded(folder, stored);
      ASSERT_EQ(source->tensors().size(), 2u);
      const StoredTensor* tensor = source->find(kName);
      EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{kRows, kColumns}));
      EXPECT_EQ(to_dtype(tensor->dtype), dtype);
      const Tensor exact = at::empty({kRows * kColumns}, kFloat32);
      kernels::nf4_dequantize(stored.packed, stored.scales, exact);
      const Tensor expected = exact.to(dtype).to(kFloat32);
      // Any range, across blocks and groups.
      for (const auto& [begin, count] :
           std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
               {0, kRows * kColumns}, {63, 2}, {64, 64}, {16383, 130}, {kRows * kColumns - 1, 1}}) {
        const Tensor part = at::empty({count}, kFloat32);
        source->read(kName, begin, part);
        EXPECT_TRUE(part.equal(expected.narrow(0, begin, count))) << begin << " " << count;
      }
    }
}

TEST(Nf4Source, HandsOutWhatIsStoredThroughOtherSources) {
  for (const bool nested : {true, false}) {
    const TempDir folder;
    const Stored stored = stored_weight(nested);
    std::vector<std::unique_ptr<WeightSource>> parts;
    parts.push_back(decoded(folder, stored));
    const auto source = join(std::move(parts));
    EXPECT_FALSE(source->read_nf4(*source->find("b.weight"), 0, 6));
    EXPECT_FALSE(source->has_nf4(*source->find("b.weight")));
    EXPECT_TRUE(source->has_nf4(*source->find(kName)));
    const auto blocks = source->read_nf4(*source->find(kName), 255 * 64, 3 * 64);
    ASSERT_TRUE(blocks);
    EXPECT_TRUE(blocks->packed.equal(stored.packed.narrow(0, 255 * 32, 3 * 32)));
    EXPECT_EQ(blocks->scales.first_block, 255);
    EXPECT_TRUE(blocks->scales.codes.equal(stored.scales.codes.narrow(0, 255, 3)));
    EXPECT_EQ(blocks->scales.nested(), nested);
    if (nested) {
      EXPECT_TRUE(blocks->scales.group_max.equal(stored.scales.group_max));
    }
    EXPECT_TRUE(kernels::nf4_scales(blocks->scales)
                    .equal(kernels::nf4_scales(stored.scales).narrow(0, 255, 3)));
  }
}

TEST(Nf4Source, MayEndWithinABlock) {
  const TempDir folder;
  Stored stored = stored_weight(false);
  const Tensor packed = stored.packed.narrow(0, 0, 50).clone();
  stored.tensors[kName] = packed.view({-1, 1});
  stored.tensors[stored.of(".absmax")] = stored.scales.codes.narrow(0, 0, 2).clone();
  stored.state["shape"] = {9, 11};
  stored.put_state();
  const auto source = decoded(folder, stored);
  const Tensor whole = at::empty({kRows * kColumns}, kBFloat16), all = at::empty({99}, kBFloat16),
               last = at::empty({1}, kBFloat16);
  kernels::nf4_dequantize(stored.packed, stored.scales, whole);
  source->read(kName, 0, all);
  source->read(kName, 98, last);
  EXPECT_TRUE(all.equal(whole.narrow(0, 0, 99)));
  EXPECT_TRUE(last.equal(whole.narrow(0, 98, 1)));
}

TEST(Nf4Source, RefusesByNameWhatIsNotSo) {
  using Change = std::function<void(Stored&)>;
  const auto put = [](const char* part, Tensor tensor) {
    return [part, tensor](Stored& s) { s.tensors[s.of(part)] = tensor; };
  };
  const auto drop = [](const char* part) {
    return [part](Stored& s) { s.tensors.erase(s.of(part)); };
  };
  const auto say = [](const char* key, Json value) {
    return [key, value](Stored& s) {
      s.state[key] = value;
      s.put_state();
    };
  };
  struct Case {
    Change change;
    ErrorKind kind;
    const char* fact;
  };
  const auto bytes = [](std::int64_t count) { return at::zeros({count}, c10::ScalarType::Byte); };
  const Case cases[] = {
      {drop(""), ErrorKind::data, "a.weight is missing"},
      {drop(".absmax"), ErrorKind::data, "a.weight.absmax is missing"},
      {drop(".quant_map"), ErrorKind::data, "a.weight.quant_map is missing"},
      {drop(".nested_absmax"), ErrorKind::data, "a.weight.nested_absmax is missing"},
      {drop(".nested_quant_map"), ErrorKind::data, "a.weight.nested_quant_map is missing"},
      {put("", bytes(9600)), ErrorKind::data, "U8 [9600], its state says U8 [9600, 1]"},
      {put("", bytes(9599).view({-1, 1})), ErrorKind::data, "U8 [9599, 1], its state says"},
      {put("", at::zeros({4800, 1}, kBFloat16)), ErrorKind::config, "4-bit numbers as BF16"},
      {put(".absmax", bytes(299)), ErrorKind::data, "absmax is U8 [299], its state says U8 [300]"},
      {put(".absmax", at::zeros({300})), ErrorKind::data, "absmax is F32 [300], its state says U8"},
      {put(".nested_absmax", at::zeros({1})), ErrorKind::data, "F32 [1], its state says F32 [2]"},
      {put(".quant_map", at::zeros({16})), ErrorKind::data, "quant_map is not the table"},
      {put(".quant_map", at::zeros({17})), ErrorKind::data, "F32 [17], its state says F32 [16]"},
      {put(".nested_quant_map", at::zeros({256})), ErrorKind::data, "nested_quant_map is not the"},
      {put(".quant_state.bitsandbytes__nf4", bytes(5000)), ErrorKind::data, "up to 4096 bytes"},
      {put(".quant_state.bitsandbytes__nf4", at::zeros({40})), ErrorKind::data, "is F32 [40], not"},
      {put(".quant_state.bitsandbytes__nf4", text_tensor("{")), ErrorKind::data, "nf4"},
      {put(".quant_state.bitsandbytes__fp4", bytes(9)), ErrorKind::config, "is stored as fp4"},
      {say("quant_type", "fp4"), ErrorKind::config, "quant_type is \"fp4\", not nf4"},
      {say("blocksize", 128), ErrorKind::config, "blocksize is 128, not 64"},
      {say("nested_blocksize", 128), ErrorKind::config, "nested_blocksize is 128, not 256"},
      {say("nested_dtype", "float16"), ErrorKind::config, "nested_dtype is \"float16\""},
      {say("dtype", "float64"), ErrorKind::config, "dtype is \"float64\""},
      {say("stranger", 1), ErrorKind::config, "its key stranger is not known"},
      {say("shape", {kColumns, kRows, 1}), ErrorKind::data, "shape is no list of two sizes"},
      {say("shape", {kColumns, -kRows}), ErrorKind::data, "is none of a matrix"},
      {say("shape", {kRows, kColumns + 1}), ErrorKind::data, "U8 [9600, 1], its state says U8"},
      {say("nested_offset", nullptr), ErrorKind::data, "nested_offset is no finite number"},
      {say("nested_offset", 1e39), ErrorKind::data, "nested_offset is no finite number"},
  };
  for (const Case& each : cases) {
    const TempDir folder;
    Stored stored = stored_weight(true);
    each.change(stored);
    EXPECT_WMTP_ERROR(decoded(folder, stored), each.kind, each.fact);
  }
}

TEST(Nf4Source, ScalesThatAreNoNumbersAreRefusedWhereTheyAreRead) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const TempDir folder;
    Stored stored = stored_weight(true);
    stored.tensors[stored.of(".nested_absmax")] =
        table(std::initializer_list<float>{stored.scales.group_max[0].item<float>(), bad});
    const auto source = decoded(folder, stored);
    const Tensor part = at::empty({256 * 64}, kFloat32);
    EXPECT_NO_THROW(source->read(kName, 0, part));
    EXPECT_WMTP_ERROR(source->read(kName, 64, part), ErrorKind::data,
                      "the scale of block 256 of a.weight is");
    EXPECT_WMTP_ERROR(source->read_nf4(*source->find(kName), 64, 256 * 64), ErrorKind::data,
                      "the scale of block 256 of a.weight is");
  }
}

TEST(QuantState, CountsBytesBlocksAndGroups) {
  const auto state = parse_quant_state(
      R"({"quant_type": "nf4", "blocksize": 64, "dtype": "float16", "shape": [255, 257]})", "x");
  EXPECT_FALSE(state.nested_offset);
  EXPECT_EQ(state.num_bytes(), 32768);
  EXPECT_EQ(state.num_blocks(), 1024);
  EXPECT_EQ(state.num_groups(), 4);
}

}  // namespace
}  // namespace wmtp::weights
