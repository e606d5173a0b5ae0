#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "wmtp/bench/bench.h"
#include "wmtp/core/time.h"
#include "wmtp/models/open_model.h"
#include "wmtp/tensor/host_memory.h"
#include "wmtp/weights/safetensors_tensor.h"

namespace wmtp::bench {
namespace {

double anonymous_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::strtod(line.c_str() + 8, nullptr) / 1024;
  return 0;
}

double peak_mib() {
  return static_cast<double>(peak_resident_bytes()) / (1 << 20);
}

// Every unit into one flat buffer of its own, as training holds it, in the dtype of the files.
std::vector<Tensor> load_units(const models::OpenedModel& model) {
  std::vector<Tensor> units;
  for (const auto& unit : model::model_units(model.config)) {
    const auto* first = model.folder.weights->find(unit.params.front().name);
    const auto options = at::TensorOptions().dtype(*weights::to_dtype(first->dtype));
    const Tensor flat = at::empty({unit.numel()}, options);
    std::int64_t at = 0;
    for (const auto& param : unit.params) {
      model.folder.weights->read(param.name, 0, flat.narrow(0, at, param.numel()));
      at += param.numel();
    }
    units.push_back(flat);
  }
  return units;
}

int bench_load(const std::string& path, const cli::Session& session) {
  const auto environment = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
  const double before_mib = anonymous_mib();
  const auto start = Clock::now();
  const models::OpenedModel model = models::open_model(path, environment);
  if (!model.has_weights())
    throw Error(ErrorKind::config, "bench", fmt::format("{} has no weights", path));
  const std::vector<Tensor> units = load_units(model);
  const double seconds = seconds_since(start);
  std::size_t bytes = 0;
  for (const Tensor& unit : units) bytes += unit.nbytes();
  const double held_mib = anonymous_mib() - before_mib;
  if (session.json)
    cli::emit_json(
        "result",
        {{"bytes", bytes}, {"seconds", seconds}, {"anon_mib", held_mib}, {"peak_mib", peak_mib()}});
  else
    std::cout << fmt::format(
        "{} bytes in {:.3f} s, {:.2f} GB/s; {:.0f} MiB held, peak {:.0f} MiB\n", bytes, seconds,
        static_cast<double>(bytes) / seconds / 1e9, held_mib, peak_mib());
  return 0;
}

}  // namespace

void add_bench_load(CLI::App& bench, cli::Session& session) {
  CLI::App* command =
      bench.add_subcommand("load", "Load a model folder's weights and show speed and memory");
  auto path = std::make_shared<std::string>();
  command->add_option("path", *path, "Model folder")->required()->type_name("PATH");
  command->footer(
      "  wmtp bench load models/llama\n"
      "  wmtp --json bench load models/llama");
  command->callback(
      [path, &session] { session.run = [path, &session] { return bench_load(*path, session); }; });
}

}  // namespace wmtp::bench
