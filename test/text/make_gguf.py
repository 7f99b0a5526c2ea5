#!/usr/bin/env python3
"""Writes test/text/gguf/: tokenizers of test/text/tokenizers as GGUF files have them, without weights."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'cli'))
import gguf_file  # noqa: E402

os.makedirs(os.path.join(HERE, 'gguf'), exist_ok=True)
level = gguf_file.byte_level(os.path.join(HERE, 'tokenizers', 'qwen'), 'qwen2', **{'tokenizer.ggml.eos_token_id': ('u32', 0),
                             'tokenizer.chat_template': ('str', '{{ messages }}')})
gguf_file.write(os.path.join(HERE, 'gguf', 'qwen.gguf'), level, {})
gguf_file.write(os.path.join(HERE, 'gguf', 'fallback.gguf'), gguf_file.sentencepiece(os.path.join(HERE, 'tokenizers', 'fallback')), {})
