// trainer_state.json: everything comes back, and nothing in it is passed over.
#include "wmtp/run/checkpoints/trainer_state.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::test {
namespace {

run::SavedState full_state() {
  run::SavedState state;
  state.train.step = 7;
  state.train.cursor = {2, 5, 42, 24, "list", "data", "tokenizer"};
  state.train.samples_seen = 53, state.train.tokens_seen = 5300;
  state.train.skipped_steps = 2, state.train.bad_in_a_row = 1;
  state.train.best = run::BestRecord{"loss", 0.5, 6};
  state.train.validations_without_best = 3;
  state.train.plateau = {0.25, 0.75, 4};
  state.train.losses = {{2.5, 2.25, 90}, true, 1};
  state.train.run_uid = "0123abcd";
  state.seed = 43;
  state.applied_updates = 5;
  state.groups = {{"policy", 1e-3, 0.01}, {"lora", 2e-3, 0}};
  state.planned_steps = 40;
  state.loss_scale = optim::LossScale::State{1024, 9};
  state.ema = weighting::EmaState{0.125, 2, 6, 0.3, 8};
  state.layout = {2, "NO_SHARD", "fp32", 3, 4};
  return state;
}

Json state_json() {
  return Json::parse(run::to_json(full_state()).dump());
}

// Every object in it, by its place.
std::vector<Json::json_pointer> objects(const Json& json,
                                        const Json::json_pointer& at = Json::json_pointer()) {
  std::vector<Json::json_pointer> found;
  if (json.is_object()) found.push_back(at);
  if (json.is_structured())
    for (const auto& [key, value] : json.items()) {
      const auto below =
          json.is_array() ? at / static_cast<std::size_t>(std::stoul(key)) : at / key;
      const auto inner = objects(value, below);
      found.insert(found.end(), inner.begin(), inner.end());
    }
  return found;
}

TEST(TrainerState, ComesBackWhole) {
  EXPECT_EQ(Json::parse(run::to_json(run::saved_state_from_json(state_json())).dump()),
            state_json());
}

TEST(TrainerState, AMissingKeyIsNamed) {
  int num_keys = 0;
  const Json whole = state_json();
  for (const auto& place : objects(whole))
    for (const auto& [key, value] : whole.at(place).items()) {
      if (key == "loss_watch") continue;  // older checkpoints have none
      Json json = state_json();
      json.at(place).erase(key);
      EXPECT_WMTP_ERROR(run::saved_state_from_json(json), ErrorKind::checkpoint, key);
      ++num_keys;
    }
  EXPECT_GT(num_keys, 40);
}

TEST(TrainerState, AnUnknownKeyIsNamed) {
  EXPECT_GE(objects(state_json()).size(), 12U);
  for (const auto& place : objects(state_json())) {
    Json json = state_json();
    json.at(place)["stranger"] = 1;
    EXPECT_WMTP_ERROR(run::saved_state_from_json(json), ErrorKind::checkpoint, "stranger");
  }
}

TEST(TrainerState, WithoutALossWatchItIsEmpty) {
  Json json = state_json();
  json.erase("loss_watch");
  EXPECT_EQ(run::saved_state_from_json(json).train.losses, run::LossHistory());
  EXPECT_FALSE(run::to_json(run::saved_state_from_json(json)).contains("loss_watch"));
  for (const Json& wrong : {Json(7), Json({1, "NaN"}), Json(std::vector(10'001, 1.0))}) {
    json = state_json();
    json["loss_watch"]["recent"] = wrong;
    EXPECT_WMTP_ERROR(run::saved_state_from_json(json), ErrorKind::checkpoint, "recent");
  }
}

TEST(TrainerState, WhatContradictsItselfOrIsNewerIsRefused) {
  Json json = state_json();
  json["epoch"] = 3;
  EXPECT_WMTP_ERROR(run::saved_state_from_json(json), ErrorKind::checkpoint,
                    "is of epoch 3, its data cursor of epoch 2");
  json = state_json();
  json["version"] = 2;
  EXPECT_WMTP_ERROR(run::saved_state_from_json(json), ErrorKind::config, "version 2");
  json = state_json();
  json["optimizer"]["groups"] = nullptr;
  EXPECT_WMTP_ERROR(run::saved_state_from_json(json), ErrorKind::checkpoint, "groups");
}

}  // namespace
}  // namespace wmtp::test
