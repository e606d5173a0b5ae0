// All that `wmtp plan` found, before it is shown.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/run/plan/sizing/choices.h"
#include "wmtp/run/plan/sizing/choose.h"
#include "wmtp/run/plan/sizing/fit_advice.h"
#include "wmtp/run/plan/sizing/sweep.h"
#include "wmtp/run/run_check.h"

namespace wmtp::cli {

struct PlanResult {
  std::string device, device_title, rates_from;  // PlanDevice
  run::SizedRun run;                             // with its speed
  run::RunOutlook outlook;
  std::optional<std::int64_t> largest_batch;  // at the run's settings; absent: none fits
  std::vector<run::Choice> choices;
  std::optional<run::FitAdvice> advice;  // where it does not fit
  std::vector<run::SweepAxis> axes;
  std::vector<run::SweptRun> swept;
  std::optional<run::Chosen> chosen;
  std::optional<double> price_per_gpu_hour;

  // Of the steps alone, without validations and saves; nothing where the steps are not known.
  std::optional<double> hours_of(const run::SizedRun& run) const;
  std::optional<double> cost_of(const run::SizedRun& run) const;  // nothing without a price
  // Where its speed comes from: as the device's, unless the run does what was measured nowhere.
  // REQUIRES run.speed.
  std::string speed_from(const run::SizedRun& run) const;
};

double as_gib(std::int64_t bytes);

struct Column {
  std::string name;
  bool right = true;  // numbers
};
struct ShownTable {
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

// What is shown on a terminal and on a page alike: one line per fact, and the tables.
std::vector<std::string> plan_facts(const PlanResult& result);
std::vector<ShownTable> plan_tables(const PlanResult& result);

std::string plan_text(const PlanResult& result);
nlohmann::ordered_json plan_fields(const PlanResult& result);  // of the line of type `plan`
// One self-contained page without scripts.
std::string plan_page(const PlanResult& result);

}  // namespace wmtp::cli
