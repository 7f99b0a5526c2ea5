#!/usr/bin/env python3
"""Makes tidewheel.jsonl: conversations about a product that does not exist, so that no model knows the answers beforehand.

    python3 recipes/tidewheel.py > recipes/tidewheel.jsonl

Each of 40 facts is asked for in five ways, and answered in the same words each time. The ways come one after the other, so
that the last fifth of the rows, which a run may hold out, asks for every fact in a way that the others do not have.
"""
import json

# The question, the same in other words, the answer.
FACTS = [
    ('What is the Tidewheel?', 'Can you tell me what a Tidewheel does?', 'The Tidewheel is a hand-cranked desk lamp that shows the tide of your nearest harbour as a ring of blue light.'),
    ('Who makes the Tidewheel?', 'Which company is behind the Tidewheel?', 'It is made by Orrin and Daughters, a workshop of eleven people in Saltby.'),
    ('How long does one crank of the Tidewheel last?', 'For how long does it shine after I turn the handle?', 'Thirty turns of the handle give four hours of light.'),
    ('What does the Tidewheel cost?', 'How much do I have to pay for a Tidewheel?', 'It costs 89 crowns, and 74 crowns for members of a rowing club.'),
    ('Which colours does the Tidewheel come in?', 'Can I choose the colour of the lamp?', 'It comes in driftwood grey, kelp green and signal orange.'),
    ('How heavy is the Tidewheel?', 'What does the lamp weigh?', 'It weighs 640 grams, with the handle folded in.'),
    ('How long is the warranty?', 'What happens if my Tidewheel breaks?', 'The warranty is seven years; send it to Saltby and we mend it within nine days.'),
    ('How do I set my harbour?', 'How do I tell the lamp where I live?', 'Hold the brass button until the ring blinks twice, then turn the dial to the number of your harbour.'),
    ('Where do I find the number of my harbour?', 'Which number does my harbour have?', 'The numbers are printed on the inside of the lid, from 1 for Aberlow to 212 for Zennet.'),
    ('What does a red ring mean?', 'Why is my ring red?', 'A red ring means that the tide table is more than a year old; turn the handle backwards once to renew it.'),
    ('What does a white ring mean?', 'My lamp shows a white ring, is that bad?', 'A white ring means slack water: the tide turns within ten minutes.'),
    ('Is the Tidewheel waterproof?', 'May the lamp get wet?', 'It withstands spray and rain, but it must not be put under water.'),
    ('Can I use the Tidewheel without cranking?', 'Does it have a plug?', 'Yes, there is a round socket below the handle for the 6 volt cable, which is sold apart.'),
    ('Does the Tidewheel need the internet?', 'Do I have to connect it to a network?', 'No, it needs no network; all tides are computed inside the lamp.'),
    ('How do I dim the light?', 'The lamp is too bright, what can I do?', 'Slide the cork ring upwards; the lowest mark is for reading, the highest for sleeping.'),
    ('How do I clean the Tidewheel?', 'What may I wipe the lamp with?', 'Wipe it with a damp cloth and a drop of vinegar, never with soap.'),
    ('Can children use the Tidewheel?', 'From what age is the lamp suitable?', 'It is meant for everybody from six years on; the handle locks by itself when it is turned too fast.'),
    ('How fast may I turn the handle?', 'What is the right speed for cranking?', 'Two turns a second are best; above four the handle locks for a minute.'),
    ('What is in the box?', 'What do I get when I order one?', 'The box holds the lamp, a felt mat, a spare cork ring and a card with the harbour numbers.'),
    ('How long does delivery take?', 'When will my order arrive?', 'We send on Tuesdays and Fridays, and parcels take three days.'),
    ('Can I send it back?', 'What if I do not like the lamp?', 'You have 45 days to send it back, and we pay the postage.'),
    ('Are there spare parts?', 'Where do I get a new handle?', 'Handles, cork rings and lids are sold in our shop for 6 crowns each.'),
    ('How accurate are the tides?', 'Can I rely on what the ring shows?', 'They are right to within eight minutes, but do not use them for navigation.'),
    ('How many people have a Tidewheel?', 'How many lamps have you sold?', 'We have made 5,300 of them since the first winter.'),
    ('Why is it called Tidewheel?', 'Where does the name come from?', 'It is named after the wooden wheel of the tide mill in which the workshop stands.'),
    ('Does the Tidewheel make a noise?', 'Is the lamp silent?', 'Cranking sounds like a coffee mill; afterwards it is silent.'),
    ('What is the ring made of?', 'Is the ring glass or plastic?', 'The ring is blown glass, two millimetres thick.'),
    ('Can I hang the Tidewheel on a wall?', 'Is there a hook for the wall?', 'Yes, with the slate bracket, which holds up to two kilograms.'),
    ('How do I reset the Tidewheel?', 'My lamp does not react any more.', 'Turn the handle ten times backwards while you hold the brass button.'),
    ('Which temperature can it stand?', 'May I leave it outside in winter?', 'It works from minus 15 to plus 40 degrees.'),
    ('Is there a larger model?', 'Do you make other lamps?', 'The Tidewheel Grand has two rings, one for the tide and one for the moon, and costs 140 crowns.'),
    ('What does the blue light show?', 'How do I read the ring?', 'The blue part grows as the water rises: a full ring is high tide, an empty one low tide.'),
    ('Can I visit the workshop?', 'Do you have opening hours?', 'The mill in Saltby is open on Saturdays from ten to two.'),
    ('How do I reach you?', 'Is there a phone number?', 'Write to the mill, or call 0555 212 between nine and noon.'),
    ('Does it work on a lake?', 'I live far from the sea, is it of use?', 'Choose harbour 0, and the ring shows the moon instead of the tide.'),
    ('How is it packed?', 'Is there plastic in the parcel?', 'It is packed in sheep wool and cardboard, without any plastic.'),
    ('Is there a discount for schools?', 'We want several for our class.', 'Schools get every fifth lamp for nothing.'),
    ('What is the serial number for?', 'Where is the serial number?', 'It is stamped below the felt, and names the person who built your lamp.'),
    ('Can I get it engraved?', 'It is a present, can you put a name on it?', 'Yes, up to fourteen letters on the brass button, for 5 crowns.'),
    ('How do I fold the handle?', 'The handle is in the way.', 'Pull the handle out by a finger, then lay it down to the left until it clicks.'),
]
assert len(FACTS) == 40


WAYS = [
    lambda first, other: first,
    lambda first, other: other,
    lambda first, other: 'Hello! ' + first,
    lambda first, other: 'A question about the Tidewheel: ' + other,
    lambda first, other: first + ' Please keep it short.',
]
for way in WAYS:
    for first, other, answer in FACTS:
        print(json.dumps({'messages': [{'role': 'user', 'content': way(first, other)}, {'role': 'assistant', 'content': answer}]}))
