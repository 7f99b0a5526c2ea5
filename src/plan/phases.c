#include "plan/phases.h"

#include "data/codec.h"
#include "data/data.h"
#include "model/generation.h"

hr_host_phases hr__host_phases(const hr_plan *plan, const hr_recipe *recipe) {
  uint64_t peak = plan->tiers[HR_TIER_HOST].peak_bytes;
  hr_host_phases phases = {.load = peak, .train = peak, .save = peak};
  if (!recipe) return phases;
  bool generates = hr__generation_alone(recipe) || hr__recipe_has(recipe, "training.generation_every");
  if (generates || hr__data_reads_tokenizer(recipe)) phases.prepare = hr__codec_bytes(recipe).reading;
  return phases;
}

uint64_t hr__host_most(const hr_plan *plan, const hr_host_phases *phases) {
  uint64_t later = plan->facts.kind == HR_CPU ? plan->tiers[HR_TIER_DEVICE].arena_bytes : 0;
  uint64_t prepare = phases->prepare > later ? phases->prepare - later : 0;
  return prepare > phases->train ? prepare : phases->train;
}
