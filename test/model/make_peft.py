#!/usr/bin/env python3
"""Adapters as PEFT itself writes them, for test/cli/test_adapters_path.py:

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install torch transformers peft
    /tmp/reference/bin/python test/model/make_peft.py

writes test/model/peft: LoRA for the model of TINY in test/cli/support.py, both matrices drawn, scaled by alpha / sqrt(rank).
"""
import os

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'peft')

torch.manual_seed(1)
config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=256)
model = get_peft_model(LlamaForCausalLM(config), LoraConfig(r=2, lora_alpha=6, lora_dropout=0.0, use_rslora=True, task_type='CAUSAL_LM',
                                                           target_modules=['q_proj', 'v_proj']))
for name, parameter in model.named_parameters():
    if 'lora_B' in name:
        torch.nn.init.normal_(parameter, std=0.2)
model.save_pretrained(FOLDER)
os.remove(os.path.join(FOLDER, 'README.md'))
with open(os.path.join(FOLDER, 'adapter_config.json'), 'a', encoding='utf-8') as file:
    file.write('\n')
