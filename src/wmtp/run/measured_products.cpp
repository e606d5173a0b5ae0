#include "wmtp/run/measured_products.h"

#include <fmt/format.h>

#include <charconv>

#include "wmtp/core/json.h"
#include "wmtp/core/log.h"
#include "wmtp/kernels/gpu/products.h"
#include "wmtp/run/plan/kernels/run_gpu.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::run {
namespace {

using kernels::ProductAlgorithm;
using kernels::gpu::MeasuredProduct;

constexpr std::size_t kHexDigits = 16;  // of one number of an algorithm
constexpr std::string_view kLibrarys = "library";

std::string noted(const std::optional<ProductAlgorithm>& algorithm) {
  if (!algorithm) return std::string(kLibrarys);
  std::string text;
  for (const std::uint64_t number : *algorithm) text += fmt::format("{:016x}", number);
  return text;
}

[[noreturn]] void refuse_choices(const std::filesystem::path& file, const std::string& fact) {
  throw Error(ErrorKind::data, "train", fmt::format("{}: {}", file.string(), fact),
              "remove the file: products are timed again then");
}

std::optional<ProductAlgorithm> algorithm_of(const std::string& text,
                                             const std::filesystem::path& file,
                                             const std::string& product) {
  if (text == kLibrarys) return std::nullopt;
  ProductAlgorithm algorithm{};
  bool good = text.size() == kHexDigits * algorithm.size();
  for (std::size_t i = 0; good && i < algorithm.size(); ++i) {
    const char* const first = text.data() + i * kHexDigits;
    const auto [end, error] = std::from_chars(first, first + kHexDigits, algorithm[i], 16);
    good = error == std::errc() && end == first + kHexDigits;
  }
  if (!good)
    refuse_choices(file, fmt::format("the algorithm of \"{}\" is neither {} nor {} "
                                     "hexadecimal digits",
                                     product, kLibrarys, kHexDigits * algorithm.size()));
  return algorithm;
}

struct Choices {
  std::string gpu, library;
  std::vector<MeasuredProduct> products;
};

Choices read_choices(const std::filesystem::path& file) {
  const Json json = read_json(file);
  const auto is_text = [&](const char* key) { return json.contains(key) && json[key].is_string(); };
  if (!json.is_object() || !is_text("gpu") || !is_text("library") || !json.contains("products") ||
      !json["products"].is_object())
    refuse_choices(file, "expected an object with gpu, library and products");
  Choices choices{json["gpu"], json["library"], {}};
  for (const auto& [product, algorithm] : json["products"].items()) {
    if (!algorithm.is_string())
      refuse_choices(file, fmt::format("the algorithm of \"{}\" is no text", product));
    choices.products.push_back({product, algorithm_of(algorithm, file, product)});
  }
  return choices;
}

}  // namespace

MeasuredProducts::MeasuredProducts(const config::Runtime& runtime, const RunContext& context)
    : on_(runtime.gemm_choice == config::GemmChoice::measured),
      writes_(context.rank == 0),
      file_(runtime.run_dir / "gemm_choices.json") {
  if (!on_) return;
  gpu_ = run_gpu(context.device, std::nullopt).value_or(GpuInfo{}).name;
  library_ = kernels::gpu::measuring_library();
  Choices choices{gpu_, library_, {}};
  if (std::filesystem::exists(file_)) choices = read_choices(file_);
  if (choices.gpu != gpu_ || choices.library != library_) {
    log::info("train", "{} is of {} and {}, here are {} and {}: products are timed again",
              file_.string(), choices.gpu, choices.library, gpu_, library_);
    choices.products.clear();
  }
  kernels::gpu::measure_products(choices.products);
  num_kept_ = kernels::gpu::num_measured_products();
}

MeasuredProducts::~MeasuredProducts() {
  if (on_) kernels::gpu::leave_products_to_library();
}

void MeasuredProducts::keep() {
  if (!on_ || !writes_ || kernels::gpu::num_measured_products() == num_kept_) return;
  Json products = Json::object();
  for (const MeasuredProduct& one : kernels::gpu::measured_products())
    products[one.product] = noted(one.algorithm);
  num_kept_ = products.size();
  const Json all{{"gpu", gpu_}, {"library", library_}, {"products", std::move(products)}};
  try {
    storage::write_file_atomically(file_, all.dump(2) + "\n");
  } catch (const Error& error) {
    log::warn("train", "the algorithms of products are not kept: {}", error.what());
  }
}

}  // namespace wmtp::run
